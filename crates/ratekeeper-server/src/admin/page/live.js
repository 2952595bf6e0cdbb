// Live answers: the look-up of a key, recent refusals, and recent callers of each policy.

import { call } from "./talk.js";
import { $, element, put, row, rows, span, visible } from "./view.js";

const ago = seconds => seconds < 1 ? "now" : `${span(seconds)} ago`;

/** The latest refusals with their reasons; a key is looked up with a click. */
export function showRefusals(refusals) {
  rows($("refusals"), refusals, one => JSON.stringify([one.domain, one.policy, one.rule, one.key, one.at_us]), one => {
    const made = row([["when", "dim"], ["key", "key", true], ["policy", "dim", true], ["reason", "", true]]), cells = made.children;
    put(cells[1], one.key === "" ? "(all requests)" : visible(one.key));
    put(cells[2], `${one.domain} / ${one.policy}`);
    put(cells[3], visible(one.reason));
    if (one.kind === "shadow") cells[3].prepend(element("span", "badge", "shadow"), " ");
    return made;
  }, (made, one) => put(made.children[0], ago(one.seconds_ago)));
  $("no-refusals").hidden = refusals.length > 0;
}

/** The latest keys of each policy; fetched only while the list is open. */
export async function showCallers() {
  if (!$("callers-box").open) return;
  const { callers } = await call("/api/recent");
  rows($("callers"), callers, one => `${one.domain} / ${one.policy}`, one => {
    const made = row([["policy", "", true], ["keys", "", true]]);
    put(made.children[0], `${one.domain} / ${one.policy}`);
    return made;
  }, (made, one) => rows(made.children[1], one.keys, caller => caller.key, caller => {
    const item = element("span", "caller");
    item.append(element("span", "key", caller.key === "" ? "(all requests)" : visible(caller.key)), " ", element("span", "dim"));
    return item;
  }, (item, caller) => put(item.lastChild, `${ago(caller.seconds_ago)}${caller.allowed ? "" : ", refused"}`)));
  $("no-callers").hidden = callers.length > 0;
}

/** Domains of the rule files, for the look-up. */
export function showDomains(domains) {
  const list = $("lookup-domain"), known = [...list.options].map(option => option.value);
  if (JSON.stringify(known) === JSON.stringify(domains)) return;
  list.replaceChildren(...domains.map(domain => {
    const option = element("option", "", domain);
    option.value = domain;
    return option;
  }));
}

/** `user=42 path=/login` is a descriptor; text without = is a key. */
function subject(text) {
  const words = text.trim().split(/\s+/);
  if (!words.every(word => /^[^=]+=/.test(word))) return { key: text.trim() };
  return { descriptor: Object.fromEntries(words.map(word => [word.slice(0, word.indexOf("=")), word.slice(word.indexOf("=") + 1)])) };
}

async function lookUp(event) {
  event.preventDefault();
  const cost = $("lookup-cost").value === "" ? {} : { cost: $("lookup-cost").valueAsNumber };
  let text;
  try {
    text = (await call("/api/explain", { domain: $("lookup-domain").value, ...subject($("lookup-key").value), ...cost })).text;
  } catch (error) {
    text = error.message;
  }
  $("explained").hidden = false;
  put($("explained"), text.split("\n").map(visible).join("\n"));
}

$("lookup").addEventListener("submit", lookUp);
$("callers-box").addEventListener("toggle", () => showCallers().catch(() => {}));
