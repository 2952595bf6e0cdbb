// Calls to the server with the admin token, and the dialogs.

const $ = id => document.getElementById(id);
let token = sessionStorage.getItem("token") ?? "";
let asking = null;

/** Calls the server; an error response is thrown with its `detail`. */
export async function call(path, body, method = body ? "POST" : "GET") {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  if (body) headers["Content-Type"] = "application/json";
  const sent = token;
  const reply = await fetch(path, { method, headers, body: body && JSON.stringify(body), cache: "no-store" });
  if (reply.status === 401) {
    // Retry if the token has changed since; else ask for one, once for all pending calls.
    if (token === sent) await (asking ??= askToken(sent !== "").finally(() => { asking = null }));
    return call(path, body, method);
  }
  const text = await reply.text();
  if (!reply.ok) throw new Error(problem(text) ?? `the server answered ${reply.status}`);
  try { return JSON.parse(text) } catch { return text }
}

function problem(text) {
  try { return JSON.parse(text).detail } catch { return null }
}

async function askToken(wasWrong) {
  $("token-text").textContent = wasWrong ? "The token was not accepted." : "The value of --admin-token-file or RATEKEEPER_ADMIN_TOKEN.";
  $("token-input").value = "";
  // Escape closes a dialog; nothing can be shown without a token, so it opens again.
  while (await opened($("token")) !== "yes");
  token = $("token-input").value;
  sessionStorage.setItem("token", token);
}

/** Asks for confirmation. */
export async function confirmed(title, text, yes) {
  $("confirm-title").textContent = title;
  $("confirm-text").textContent = text;
  $("confirm-yes").textContent = yes;
  return await opened($("confirm")) === "yes";
}

/** Asks for an override; null if cancelled. */
export async function askOverride(policies, known) {
  const named = one => `${one.domain} / ${one.policy}`;
  $("override-policy").replaceChildren(...policies.map((one, index) => {
    const option = document.createElement("option");
    option.value = index;
    option.textContent = named(one);
    option.selected = known !== undefined && named(one) === named(known);
    return option;
  }));
  $("override-key").value = known?.key ?? "";
  if (await opened($("override")) !== "yes") return null;
  const policy = policies[$("override-policy").value];
  const rules = [{ name: "override", algorithm: "token_bucket", limit: $("override-limit").valueAsNumber, per: $("override-per").value }];
  const whom = { domain: policy.domain, policy: policy.policy, key: $("override-key").value };
  return $("override-for").value ? { ...whom, rules, expires_in: $("override-for").value } : { ...whom, rules };
}

function opened(dialog) {
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise(done => dialog.addEventListener("close", () => done(dialog.returnValue), { once: true }));
}

/** A message that disappears after some seconds. */
let fading = 0;
export function say(text) {
  $("said").textContent = text;
  clearTimeout(fading);
  fading = setTimeout(() => { $("said").textContent = "" }, 6000);
}
