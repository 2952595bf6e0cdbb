// Rates over the last minutes: what was allowed, and on top of it what was refused.

const SVG = "http://www.w3.org/2000/svg";
/** Seconds that are shown, and kept. */
export const SPAN = 300;
const WIDTH = 1000, HEIGHT = 176, TOP = 8;

const plot = document.getElementById("plot"), svg = plot.querySelector("svg");
const make = (name, kind) => {
  const made = document.createElementNS(SVG, name);
  if (kind) made.setAttribute("class", kind);
  svg.append(made);
  return made;
};
svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
const grid = [0, 1, 2].map(() => make("line"));
const allowed = make("path", "good area"), refused = make("path", "bad area");
const allowedEdge = make("path", "good edge"), refusedEdge = make("path", "bad edge"), hand = make("line", "hand");
const labels = [0, 1, 2].map(() => {
  // Labels are HTML next to the SVG, because the SVG is stretched.
  const label = document.createElement("span");
  label.className = "mark";
  plot.append(label);
  return label;
});

let points = [], pointer = null;

/** Adds a sample: time and both rates. */
export function add(at, good, bad) {
  points.push({ at, good, bad });
  points = points.filter(point => point.at > at - SPAN - 2);
  draw();
}

/** Discards the samples, which are those of an earlier process. */
export function clear() { points = [] }

/** A rate in at most four figures. */
export function rate(value) {
  if (value >= 10000) return `${(value / 1000).toFixed(value >= 100000 ? 0 : 1)}k`;
  if (value >= 100 || value === Math.round(value)) return value.toFixed(0);
  return value.toFixed(1);
}

function draw() {
  const now = points.at(-1).at, most = nice(Math.max(1, ...points.map(point => point.good + point.bad)));
  const x = point => WIDTH * (1 - (now - point.at) / SPAN), y = value => TOP + (HEIGHT - TOP) * (1 - value / most);
  const edge = of => points.map(point => `${x(point).toFixed(1)} ${y(of(point)).toFixed(1)}`);
  const lower = edge(point => point.good), upper = edge(point => point.good + point.bad);
  const [first, last] = [x(points[0]).toFixed(1), WIDTH];
  allowed.setAttribute("d", `M${first} ${HEIGHT}L${lower.join("L")}L${last} ${HEIGHT}Z`);
  refused.setAttribute("d", `M${upper.join("L")}L${[...lower].reverse().join("L")}Z`);
  allowedEdge.setAttribute("d", `M${lower.join("L")}`);
  refusedEdge.setAttribute("d", points.some(point => point.bad > 0) ? `M${upper.join("L")}` : "");
  grid.forEach((line, index) => {
    const value = most * (1 - index / 2), at = y(value);
    for (const [name, to] of [["x1", 0], ["x2", WIDTH], ["y1", at], ["y2", at]]) line.setAttribute(name, to);
    labels[index].textContent = rate(value);
    labels[index].style.top = `${100 * at / HEIGHT}%`;
  });
  const { good, bad } = points.at(-1);
  document.getElementById("chart-title").textContent = `Now ${rate(good)} allowed and ${rate(bad)} refused per second; the most in five minutes was ${rate(Math.max(...points.map(point => point.good + point.bad)))}`;
  showSample();
}

/** Shows the sample under the pointer. */
function showSample() {
  const label = document.getElementById("chart-at");
  const now = points.at(-1)?.at, at = pointer === null ? null : now - SPAN * (1 - pointer);
  const near = at === null ? null : points.reduce((best, point) => best && Math.abs(best.at - at) < Math.abs(point.at - at) ? best : point, null);
  const is = near && Math.abs(near.at - at) < 5;
  hand.setAttribute("visibility", is ? "visible" : "hidden");
  label.textContent = is ? `${Math.round(now - near.at)} s ago: ${rate(near.good)} allowed, ${rate(near.bad)} refused` : "";
  if (is) for (const [name, to] of [["x1", pointer * WIDTH], ["x2", pointer * WIDTH], ["y1", TOP], ["y2", HEIGHT]]) hand.setAttribute(name, to);
}
svg.addEventListener("pointermove", event => {
  const box = svg.getBoundingClientRect();
  pointer = (event.clientX - box.left) / box.width;
  if (points.length) showSample();
});
svg.addEventListener("pointerleave", () => { pointer = null; if (points.length) showSample() });

/** The next of 1, 2, 5, 10, 20 …, so that the scale stays while the rates move. */
function nice(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map(step => step * power).find(step => step >= value);
}
