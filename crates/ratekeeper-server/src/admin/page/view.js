// Rendering helpers. Rows are updated in place, so that nothing jumps and focus is kept; untrusted text is only ever set
// as text content.

export const $ = id => document.getElementById(id);

/** Untrusted text: characters that reorder or hide others (controls, format characters) as escapes. */
export const visible = text => text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u115f\u1160\u3164\uffa0]/gu, letter => `\\u{${letter.codePointAt(0).toString(16)}}`);

export function element(name, kind, text) {
  const made = document.createElement(name);
  if (kind) made.className = kind;
  if (text !== undefined) made.textContent = text;
  return made;
}

export function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function button(text, about, act) {
  const made = element("button", "small", text);
  made.type = "button";
  made.setAttribute("aria-label", `${text}: ${about}`);
  made.addEventListener("click", act);
  return made;
}

/** Makes the children of `parent` match the list: one per name, created once, updated each time. */
export function rows(parent, list, name, make, update) {
  const before = new Map([...parent.children].map(child => [child.dataset.id, child]));
  list.forEach((item, index) => {
    const id = name(item);
    let row = before.get(id);
    if (!row) {
      row = make(item);
      row.dataset.id = id;
    }
    before.delete(id);
    if (parent.children[index] !== row) parent.insertBefore(row, parent.children[index] ?? null);
    update(row, item);
  });
  for (const gone of before.values()) gone.remove();
}

/** A table row with a cell for each column: name, class, and whether it takes the full width on a phone. */
export function row(columns) {
  const made = element("tr");
  for (const [name, kind, wide] of columns) {
    const cell = element("td", kind);
    cell.dataset.name = name;
    if (wide) cell.dataset.wide = "";
    made.append(cell);
  }
  return made;
}

/** Names and values. */
export function facts(parent, list) {
  const flat = list.flatMap(([name, value]) => [["dt", name], ["dd", value]]);
  while (parent.children.length > flat.length) parent.lastChild.remove();
  flat.forEach(([kind, text], index) => {
    const there = parent.children[index];
    if (there) put(there, text);
    else parent.append(element(kind, "", text));
  });
}

export const count = value => value.toLocaleString("en");

export function span(seconds) {
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${(seconds / 3600).toFixed(1)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

export function bytes(value) {
  return value < 1 << 20 ? `${(value / 1024).toFixed(1)} KiB` : `${(value / (1 << 20)).toFixed(1)} MiB`;
}
