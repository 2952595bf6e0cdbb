// The dashboard: asks for everything once a second, and shows it.

import { add, clear, rate } from "./chart.js";
import { askOverride, call, confirmed, say } from "./talk.js";
import { $, button, bytes, count, element, facts, put, row, rows, span, visible } from "./view.js";

let state = null, before = null;

const same = (one, other) => one.domain === other.domain && one.policy === other.policy;
const named = one => [one.domain, one.policy, one.rule].filter(Boolean).join(" / ");
const fromFiles = policies => policies.filter(one => !one.comes_with_calls);
const is = (list, target) => list.some(one => same(one, target) && (one.rule ?? null) === (target.rule ?? null));

/** Does something, says how it went, and looks again. */
async function act(doing, done) {
  try {
    await doing();
    say(done);
  } catch (error) {
    say(`That was refused: ${error.message}`);
  }
  await look();
}

const WORDS = {
  off: ["Switch it off?", "It takes no part any more, and what it has counted is forgotten.", "Switch off"],
  watch: ["Only watch?", "It goes on counting and refuses nobody.", "Only watch"],
  enforce: ["Enforce?", "Its file says shadow; from now on it refuses.", "Enforce"],
};

async function turn(how, target = {}) {
  const about = target.domain ? named(target) : "everything";
  // To enforce again what a switch made watch needs no question; to enforce what its file says to watch does.
  const words = how === "enforce" && (!target.domain || is(state.switches.watching, target)) ? undefined : WORDS[how];
  if (words && !await confirmed(`${about}: ${words[0].toLowerCase()}`, target.domain ? words[1] : `${words[1]} This is about all policies on this server.`, words[2])) return;
  await act(() => call("/api/switches", { turn: how, ...target }), `${about}: done`);
}

async function override(known) {
  const wanted = await askOverride(fromFiles(state.policies), known);
  if (wanted) await act(() => call("/api/overrides", wanted), `${wanted.key} has numbers of its own now`);
}

function showPolicies() {
  const seconds = before ? state.uptime_seconds - before.uptime_seconds : 0;
  const sum = { allowed: 0, refused: 0, shadow: 0 };
  const numbers = state.policies.map(policy => {
    const was = before?.policies.find(one => same(one, policy));
    const rise = (...fields) => was && seconds > 0 ? fields.reduce((all, field) => all + Math.max(0, policy[field] - was[field]), 0) / seconds : 0;
    const rates = { allowed: rise("allowed"), refused: rise("denied", "never"), shadow: rise("shadow_denied") };
    for (const name of Object.keys(sum)) sum[name] += rates[name];
    return { ...policy, rates };
  });
  rows($("policies"), numbers, named, makePolicy, updatePolicy);
  $("no-policies").hidden = numbers.length > 0;
  return { ...sum, seconds };
}

const POLICY = [["policy", "", true], ["rules", "", true], ["allowed/s", "n"], ["refused/s", "n"], ["allowed", "n"], ["refused", "n"], ["would refuse", "n"], ["", "act", true]];

function makePolicy(policy) {
  const made = row(POLICY), cells = made.children;
  cells[0].append(element("b", "", policy.comes_with_calls ? "limits that come with the call" : policy.policy), element("div", "dim", policy.domain));
  return made;
}

const quota = rule => rule.algorithm === "concurrency" ? rule.quota.replace(" per ", " at once, lease ") : rule.quota;

function updatePolicy(made, policy) {
  const cells = made.children, { switches } = state;
  const numbers = [rate(policy.rates.allowed), rate(policy.rates.refused), count(policy.allowed), count(policy.denied + policy.never), count(policy.shadow_denied)];
  numbers.forEach((text, index) => {
    put(cells[index + 2], text);
    cells[index + 2].classList.toggle("zero", text === "0");
  });
  cells[3].classList.toggle("bad", policy.rates.refused > 0);
  // Only what was switched or read anew changes here, so focus stays where it was.
  const target = { domain: policy.domain, policy: policy.policy };
  const off = switches.off.filter(one => same(one, policy)), watching = switches.watching.filter(one => same(one, policy));
  const look = JSON.stringify([policy.rules, off, watching, switches.enforcing, switches.everything_off, switches.everything_watches]);
  if (made.dataset.look === look) return;
  made.dataset.look = look;
  const lines = policy.rules.map(rule => {
    const line = element("div", "rule");
    line.append(element("span", "", rule.name), element("span", "dim", `${rule.algorithm.replaceAll("_", " ")}, ${quota(rule)}`));
    if (rule.shadow) line.append(element("span", "badge", "only watches"));
    return line;
  });
  for (const one of off.filter(one => one.rule)) {
    const line = element("div", "rule");
    line.append(element("span", "", one.rule), element("span", "badge", "switched off"), button("switch on", named(one), () => turn("on", one)));
    lines.push(line);
  }
  if (is(off, target)) lines.push(element("span", "badge", "switched off"));
  if (policy.comes_with_calls) lines.push(element("span", "dim", "no rule file is about them; only the switches for everything reach them"));
  cells[1].replaceChildren(...lines);
  if (policy.comes_with_calls) return;
  const watches = switches.everything_watches ? is(watching, target) : policy.rules.some(rule => rule.shadow), out = is(off, target);
  cells[7].replaceChildren(
    button(watches ? "enforce" : "only watch", named(policy), () => turn(watches ? "enforce" : "watch", target)), " ",
    button(out ? "switch on" : "switch off", named(policy), () => turn(out ? "on" : "off", target)));
}

function showTop() {
  rows($("top"), state.top_denied, one => JSON.stringify([one.domain, one.policy, one.key, one.kind]), one => {
    const made = row([["key", "key", true], ["policy", "dim", true], ["refused", "n"], ["", "act"]]), cells = made.children;
    put(cells[0], one.key === "" ? "(everybody together)" : visible(one.key));
    put(cells[1], named(one));
    if (one.kind !== "refused") cells[1].append(" ", element("span", "badge", one.kind === "banned" ? "banned" : "would refuse"));
    if (fromFiles(state.policies).some(policy => same(policy, one))) cells[3].append(button("override …", one.key, () => override(one)));
    return made;
  }, (made, one) => {
    put(made.children[2], (one.error ? "≤ " : "") + count(one.denied));
    made.children[2].title = one.error ? `at least ${count(one.denied - one.error)}` : "";
  });
  $("no-top").hidden = state.top_denied.length > 0;
}

function showSwitches() {
  const { switches } = state;
  const off = $("everything-off"), watches = $("everything-watches");
  off.disabled = watches.disabled = false;
  put(off, switches.everything_off ? "Limit again" : "Let everything through");
  put(watches, switches.everything_watches ? "Enforce again" : "Only watch, everywhere");
  const list = [...switches.off.map(one => ({ ...one, how: "off", back: "on" })), ...switches.watching.map(one => ({ ...one, how: "only watches", back: "enforce" })), ...switches.enforcing.map(one => ({ ...one, how: "enforced, though its file says shadow", back: "watch" }))];
  rows($("switched"), list, one => `${one.how}: ${named(one)}`, one => {
    const made = element("li");
    made.append(element("span", "", `${named(one)}: ${one.how}`), button("undo", named(one), () => turn(one.back, { domain: one.domain, policy: one.policy, ...(one.rule ? { rule: one.rule } : {}) })));
    return made;
  }, () => {});
  $("no-switched").hidden = list.length > 0 || switches.everything_off || switches.everything_watches;
  $("add-override").disabled = fromFiles(state.policies).length === 0;
  rows($("overrides"), state.overrides, one => JSON.stringify([one.domain, one.policy, one.key, one.from]), one => {
    const made = element("li"), told = element("span");
    told.append(element("span", "key", visible(one.key)), element("div", "dim"));
    const takeBack = () => act(() => call("/api/overrides", { domain: one.domain, policy: one.policy, key: one.key }, "DELETE"), `${one.key} is like everybody else`);
    made.append(told, one.from === "file" ? element("span", "badge", "in a rule file") : button("take back", one.key, takeBack));
    return made;
  }, (made, one) => put(made.querySelector(".dim"), `${named(one)}: ${one.rules.join("; ")}${one.expires_in_seconds === null ? "" : `, for ${span(one.expires_in_seconds)}`}`));
  $("no-overrides").hidden = state.overrides.length > 0;
}

function showFacts() {
  const { rules, store } = state;
  $("reload").disabled = false;
  facts($("rules"), [["in force", `since ${rules.in_force_seconds === null ? "never" : `${span(rules.in_force_seconds)} ago`}, read ${count(rules.generation)} ×`], ["domains", rules.domains.join(", ") || "none"], ["mistakes", rules.problem ? "yes; see above" : "none"]]);
  const events = Object.entries(store.events).filter(([, value]) => value > 0).map(([name, value]) => [name.replaceAll("_", " "), count(value)]);
  const kept = [["keys", count(store.keys)], ["memory", bytes(store.bytes)], ["evicted", count(store.evicted)], ["without room", count(store.overflowed)]];
  facts($("store"), [["kind", store.kind === "memory" ? "memory of this process" : store.kind], ...(store.kind === "memory" ? kept : [["answers", store.answers ? "yes" : "no"], ["last failure", store.last_failure ?? "none"], ...events])]);
}

/** What a person should look at, worst first. */
function showAlerts(lost) {
  const alerts = [];
  if (lost) alerts.push(["bad", "No answer from the server", lost, "no answer"]);
  if (!lost && state) {
    if (!state.ready) alerts.push(["bad", "Not ready", "Balancers are told to send requests elsewhere.", "not ready"]);
    if (state.switches.everything_off) alerts.push(["bad", "Everything is let through", "Somebody has switched all limits off.", "limits are off"]);
    if (!state.store.answers) alerts.push(["bad", "The store does not answer", `Rules answer by their own on_store_failure. ${state.store.last_failure ?? ""}`, "store is away"]);
    if (state.rules.problem) alerts.push(["warn", "The rule files have mistakes; the rules before them stay in force", state.rules.problem, "rules are stale"]);
    if (state.switches.everything_watches) alerts.push(["warn", "Nobody is refused", "Somebody has made all rules only watch.", "only watching"]);
  }
  rows($("alerts"), alerts, ([, title]) => title, ([kind, title]) => {
    const made = element("div", `alert ${kind}`);
    made.append(element("b", "", title), element("span"));
    return made;
  }, (made, [, , text]) => put(made.lastChild, text));
  const worst = alerts[0];
  put($("verdict"), worst ? worst[3] : "all is well");
  $("verdict").className = `pill ${worst ? worst[0] : "good"}`;
  document.title = worst ? `${worst[3]} · tollgate` : "tollgate";
}

function show() {
  if (before && state.uptime_seconds < before.uptime_seconds) {
    before = null;
    clear();
  }
  put($("about"), `${state.version} · up ${span(state.uptime_seconds)}`);
  const { allowed, refused, shadow, seconds } = showPolicies();
  const all = allowed + refused;
  if (seconds > 0) {
    const unlimited = state.unlimited >= before.unlimited ? (state.unlimited - before.unlimited) / seconds : 0;
    put($("rate-allowed"), rate(allowed));
    put($("rate-refused"), rate(refused));
    put($("rate-share"), all > 0 ? `${(100 * refused / all).toFixed(1)} %` : "–");
    put($("rate-shadow"), rate(shadow));
    put($("rate-unlimited"), rate(unlimited));
    add(state.uptime_seconds, allowed, refused);
  }
  showTop();
  showSwitches();
  showFacts();
  showAlerts(null);
}

async function look() {
  try {
    const told = await call("/api/state");
    // A look just after another, when a switch was turned, is too short to tell a rate by.
    if (!state || Math.abs(told.uptime_seconds - state.uptime_seconds) > .5) before = state;
    state = told;
    show();
  } catch (error) {
    showAlerts(error.message);
  }
}

async function watch() {
  await look();
  setTimeout(watch, 1000);
}

$("everything-off").addEventListener("click", () => turn(state.switches.everything_off ? "on" : "off"));
$("everything-watches").addEventListener("click", () => turn(state.switches.everything_watches ? "enforce" : "watch"));
$("add-override").addEventListener("click", () => override());
$("reload").addEventListener("click", () => act(() => call("/api/reload", {}), "The files have been read again"));
watch();
