// Dashboard: polls /api/state once a second and renders it.

import { add, clear, rate } from "./chart.js";
import { showCallers, showDomains, showRefusals } from "./live.js";
import { askOverride, call, confirmed, say } from "./talk.js";
import { $, button, bytes, count, element, facts, put, row, rows, span, visible } from "./view.js";

let state = null, before = null;

const same = (one, other) => one.domain === other.domain && one.policy === other.policy;
const named = one => [one.domain, one.policy, one.rule].filter(Boolean).join(" / ");
const fromFiles = policies => policies.filter(one => !one.inline);
const is = (list, target) => list.some(one => same(one, target) && (one.rule ?? null) === (target.rule ?? null));

/** Runs an action, shows its result, and refreshes. */
async function act(doing, done) {
  try {
    await doing();
    say(done);
  } catch (error) {
    say(`Failed: ${error.message}`);
  }
  await look();
}

const WORDS = {
  off: ["Disable?", "It no longer limits, and its counts are discarded.", "Disable"],
  shadow: ["Shadow mode?", "It keeps counting and refuses nothing.", "Shadow mode"],
  enforce: ["Enforce?", "Its file sets shadow mode; from now on it refuses requests.", "Enforce"],
};

async function turn(how, target = {}) {
  const about = target.domain ? named(target) : "everything";
  // Undoing a shadow switch needs no confirmation; enforcing a rule whose file sets shadow mode does.
  const words = how === "enforce" && (!target.domain || is(state.switches.shadow, target)) ? undefined : WORDS[how];
  if (words && !await confirmed(`${about}: ${words[0].toLowerCase()}`, target.domain ? words[1] : `${words[1]} This applies to all policies on this server.`, words[2])) return;
  await act(() => call("/api/switches", { set: how, ...target }), `${about}: saved`);
}

async function override(known) {
  const wanted = await askOverride(fromFiles(state.policies), known);
  if (wanted) await act(() => call("/api/overrides", wanted), `Override for ${wanted.key} saved`);
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

const POLICY = [["policy", "", true], ["rules", "", true], ["allowed/s", "n"], ["refused/s", "n"], ["allowed", "n"], ["refused", "n"], ["shadow", "n"], ["", "act", true]];

function makePolicy(policy) {
  const made = row(POLICY), cells = made.children;
  cells[0].append(element("b", "", policy.inline ? "inline limits" : policy.policy), element("div", "dim", policy.domain));
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
  // Rebuilt only after a switch or a reload, so that focus is kept.
  const target = { domain: policy.domain, policy: policy.policy };
  const off = switches.off.filter(one => same(one, policy)), watching = switches.shadow.filter(one => same(one, policy));
  const look = JSON.stringify([policy.rules, policy.speed, off, watching, switches.enforce, switches.everything_off, switches.everything_shadow]);
  if (made.dataset.look === look) return;
  made.dataset.look = look;
  const lines = policy.rules.map(rule => {
    const line = element("div", "rule");
    line.append(element("span", "", rule.name), element("span", "dim", `${rule.algorithm.replaceAll("_", " ")}, ${quota(rule)}`));
    if (rule.shadow) line.append(element("span", "badge", "shadow"));
    return line;
  });
  if (policy.speed === "prepaid" && state.store.kind !== "memory") lines.push(element("span", "badge", "prepaid"));
  for (const one of off.filter(one => one.rule)) {
    const line = element("div", "rule");
    line.append(element("span", "", one.rule), element("span", "badge", "disabled"), button("enable", named(one), () => turn("on", one)));
    lines.push(line);
  }
  if (is(off, target)) lines.push(element("span", "badge", "disabled"));
  if (policy.inline) lines.push(element("span", "dim", "limits sent with the call; only the switches for all limits apply"));
  cells[1].replaceChildren(...lines);
  if (policy.inline) return;
  const watches = switches.everything_shadow ? is(watching, target) : policy.rules.some(rule => rule.shadow), out = is(off, target);
  cells[7].replaceChildren(
    button(watches ? "enforce" : "shadow", named(policy), () => turn(watches ? "enforce" : "shadow", target)), " ",
    button(out ? "enable" : "disable", named(policy), () => turn(out ? "on" : "off", target)));
}

/** Decisions per second by source, and the permits held; hidden if the store, in memory, decides everything. */
function showSources(seconds) {
  const { sources, store } = state, names = Object.keys(sources);
  $("sources").hidden = !before || names.length === 0 || (store.kind === "memory" && names.every(name => name === "store"));
  if (!before || seconds <= 0) return;
  const parts = names.map(name => `${name.replaceAll("_", " ")} ${rate(Math.max(0, sources[name] - (before.sources[name] ?? 0)) / seconds)}`);
  put($("sources"), `decided by: ${parts.join(" · ")}${store.allotments ? ` · permits held: ${count(store.allotments.held)}` : ""}`);
}

function showTop() {
  rows($("top"), state.top_denied, one => JSON.stringify([one.domain, one.policy, one.key, one.kind]), one => {
    const made = row([["key", "key", true], ["policy", "dim", true], ["refused", "n"], ["", "act"]]), cells = made.children;
    put(cells[0], one.key === "" ? "(all requests)" : visible(one.key));
    put(cells[1], named(one));
    if (one.kind !== "refused") cells[1].append(" ", element("span", "badge", one.kind === "banned" ? "banned" : "shadow"));
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
  put(off, switches.everything_off ? "Enable limits" : "Disable all limits");
  put(watches, switches.everything_shadow ? "Enforce again" : "Shadow mode for all");
  const list = [...switches.off.map(one => ({ ...one, how: "disabled", back: "on" })), ...switches.shadow.map(one => ({ ...one, how: "shadow", back: "enforce" })), ...switches.enforce.map(one => ({ ...one, how: "enforced; its file sets shadow mode", back: "shadow" }))];
  rows($("switched"), list, one => `${one.how}: ${named(one)}`, one => {
    const made = element("li");
    made.append(element("span", "", `${named(one)}: ${one.how}`), button("undo", named(one), () => turn(one.back, { domain: one.domain, policy: one.policy, ...(one.rule ? { rule: one.rule } : {}) })));
    return made;
  }, () => {});
  $("no-switched").hidden = list.length > 0 || switches.everything_off || switches.everything_shadow;
  $("add-override").disabled = fromFiles(state.policies).length === 0;
  rows($("overrides"), state.overrides, one => JSON.stringify([one.domain, one.policy, one.key, one.from]), one => {
    const made = element("li"), label = element("span");
    label.append(element("span", "key", visible(one.key)), element("div", "dim"));
    const remove = () => act(() => call("/api/overrides", { domain: one.domain, policy: one.policy, key: one.key }, "DELETE"), `Override for ${one.key} removed`);
    made.append(label, one.from === "file" ? element("span", "badge", "in a rule file") : button("remove", one.key, remove));
    return made;
  }, (made, one) => put(made.querySelector(".dim"), `${named(one)}: ${one.rules.join("; ")}${one.expires_in_seconds === null ? "" : `, for ${span(one.expires_in_seconds)}`}`));
  $("no-overrides").hidden = state.overrides.length > 0;
}

function showFacts() {
  const { rules, store } = state;
  $("reload").disabled = false;
  facts($("rules"), [["loaded", `${rules.in_force_seconds === null ? "never" : `${span(rules.in_force_seconds)} ago`}, generation ${count(rules.generation)}`], ["domains", rules.domains.join(", ") || "none"], ["errors", rules.problem ? "yes, see above" : "none"]]);
  const events = Object.entries(store.events).filter(([, value]) => value > 0).map(([name, value]) => [name.replaceAll("_", " "), count(value)]);
  const { allotments } = store;
  const held = allotments?.granted > 0 ? [["permits held", `${count(allotments.held)} of ${count(allotments.holders)} keys`], ["permits granted in advance", count(allotments.granted)]] : [];
  const kept = [["keys", count(store.keys)], ["memory", bytes(store.bytes)], ["evicted", count(store.evicted)], ["overflowed", count(store.overflowed)]];
  facts($("store"), [["kind", store.kind === "memory" ? "in memory" : store.kind], ...(store.kind === "memory" ? kept : [["reachable", store.answers ? "yes" : "no"], ["last failure", store.last_failure ?? "none"], ...held, ...events])]);
}

/** Alerts, worst first. */
function showAlerts(lost) {
  const alerts = [];
  if (lost) alerts.push(["bad", "The server does not respond", lost, "no response"]);
  if (!lost && state) {
    if (!state.ready) alerts.push(["bad", "Not ready", "/readyz answers 503, so load balancers send requests elsewhere.", "not ready"]);
    if (state.switches.everything_off) alerts.push(["bad", "All limits are disabled", "A switch on this server lets every request through.", "limits disabled"]);
    if (!state.store.answers) alerts.push(["bad", "The store is unreachable", `Each rule decides by its on_store_failure. ${state.store.last_failure ?? ""}`, "store unreachable"]);
    if (state.rules.problem) alerts.push(["warn", "The rule files have errors; the previous rules stay in force", state.rules.problem, "rules stale"]);
    if (state.switches.everything_shadow) alerts.push(["warn", "All rules are in shadow mode", "A switch on this server lets refused requests through.", "shadow mode"]);
  }
  rows($("alerts"), alerts, ([, title]) => title, ([kind, title]) => {
    const made = element("div", `alert ${kind}`);
    made.append(element("b", "", title), element("span"));
    return made;
  }, (made, [, , text]) => put(made.lastChild, text));
  const worst = alerts[0];
  put($("verdict"), worst ? worst[3] : "healthy");
  $("verdict").className = `pill ${worst ? worst[0] : "good"}`;
  document.title = worst ? `${worst[3]} · ratekeeper` : "ratekeeper";
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
  showSources(seconds);
  showTop();
  showRefusals(state.recent_refusals);
  showDomains(state.rules.domains);
  showSwitches();
  showFacts();
  showAlerts(null);
}

async function look() {
  try {
    const fresh = await call("/api/state");
    // Two samples less than half a second apart (after a switch) are too close for a rate.
    if (!state || Math.abs(fresh.uptime_seconds - state.uptime_seconds) > .5) before = state;
    state = fresh;
    show();
    await showCallers();
  } catch (error) {
    showAlerts(error.message);
  }
}

async function watch() {
  await look();
  setTimeout(watch, 1000);
}

$("everything-off").addEventListener("click", () => turn(state.switches.everything_off ? "on" : "off"));
$("everything-watches").addEventListener("click", () => turn(state.switches.everything_shadow ? "enforce" : "shadow"));
$("add-override").addEventListener("click", () => override());
$("reload").addEventListener("click", () => act(() => call("/api/reload", {}), "Rule files reloaded"));
watch();
