// The page: one or two panes of outline and drawing, the details of what is chosen, search and keys.

const DATA = JSON.parse(document.getElementById("data").textContent);

function start() {
  const isTwo = DATA.sides.length === 2;
  const programs = DATA.sides.map((record, at) => new Program(record, at ? "right" : "left"));
  const main = document.getElementById("main");
  main.classList.toggle("two", isTwo);
  const panes = [];
  const details = new Details(programs, (thing, program) => panes[programs.indexOf(program)].go(thing));
  programs.forEach((program, at) => panes.push(new Pane(program, isTwo ? programs[1 - at] : null, details, panes)));
  for (const pane of panes) main.append(pane.box);
  main.append(details.box);
  header(programs, isTwo);
  if (isTwo) banner(panes);
  keys(panes);
  for (const pane of panes) pane.start();
  count(programs);
  const follow = () => goTo(decodeURIComponent(location.hash.slice(1)), panes[0]);
  addEventListener("hashchange", follow);
  follow();
  for (const pane of panes) pane.drawing.draw();
  document.body.dataset.ready = String(Math.round(performance.now()));
}

// page.html#layer.3.q, or #function/label, or the start of an id, opens there.
function goTo(name, pane) {
  if (!name) return;
  const nodes = Object.values(pane.program.functions).flatMap((fn) => fn.nodes);
  const at = name.lastIndexOf("/"), label = name.slice(at + 1), home = name.slice(0, Math.max(0, at));
  const node = nodes.find((each) => each.label === label && (!home || each.fn.name === home)) || nodes.find((each) => each.id.startsWith(name));
  if (node) pane.go({ kind: "node", node });
}

class Pane {
  constructor(program, other, details, panes) {
    this.program = program;
    this.details = details;
    this.panes = panes;
    this.outline = new Outline(program, other, (row) => this.chosen(row, "outline"), (row) => this.opened(row));
    this.drawing = new Drawing(program, other, (thing) => this.chosen(thing, "drawing"), (thing) => this.opened(thing));
    const title = other ? [element("h2", {}, program.record.path)] : [];
    this.box = element("section", { class: `pane ${other ? program.side : ""}`, "aria-label": program.record.path }, ...title, this.outline.box, this.drawing.box);
  }

  start() {
    const root = this.outline.roots.find((row) => row.kind === "function");
    if (root) this.drawing.show(root.fn);
    const first = this.outline.roots[0];
    if (first && this === this.panes[0]) { this.outline.choose(0); this.outline.box.focus({ preventScroll: true }); }
  }

  chosen(thing, from) {
    this.details.show(thing, this.program);
    if (from === "outline") this.showInDrawing(thing);
    else if (thing.kind === "node") this.outline.reveal(thing.node, this.trailOf(thing.node.fn));
    if (thing.kind === "node" && this.panes.length === 2) this.twin(thing.node);
  }

  // What is chosen on one side is shown on the other, if it is there.
  twin(node) {
    const other = this.panes.find((pane) => pane !== this);
    const same = other.program.byId.get(node.id) || (node.label && [...other.program.byId.values()].find((each) => each.label === node.label && each.fn.name === node.fn.name));
    if (!same) return;
    other.outline.reveal(same, other.trailOf(same.fn));
    if (other.drawing.fn !== same.fn && this.drawing.fn !== node.fn) return;
    other.drawing.reveal(same, (fn) => other.trailOf(fn));
  }

  showInDrawing(thing) {
    if (thing.kind === "node") this.drawing.reveal(thing.node, (fn) => this.trailOf(fn));
    else if (thing.kind === "function" && this.drawing.fn !== thing.fn) this.drawing.show(thing.fn, this.trailOf(thing.fn));
    else if (thing.kind === "layer") {
      if (this.drawing.fn !== thing.fn) this.drawing.show(thing.fn, this.trailOf(thing.fn));
      const box = this.drawing.boxes_.find((each) => each.layer === thing.layer);
      if (box) this.drawing.reveal(box.nodes[0], () => this.drawing.trail);
    }
  }

  // The shortest way of calls from a root to a function.
  trailOf(wanted) {
    const roots = Object.values(this.program.record.roots).map((key) => this.program.functions[key]);
    const from = new Map(roots.map((fn) => [fn, null])), queue = [...roots];
    for (const fn of queue) {
      if (fn === wanted) break;
      const inner = fn.nodes.flatMap((node) => this.program.callees(node).map(([, callee]) => callee));
      if (fn.ideal) inner.push(this.program.functions[fn.ideal]);
      for (const callee of inner) if (!from.has(callee)) { from.set(callee, fn); queue.push(callee); }
    }
    const trail = [];
    for (let fn = from.get(wanted); fn; fn = from.get(fn)) trail.unshift(fn);
    return trail;
  }

  opened(thing) {
    if (thing.kind === "function") this.drawing.show(thing.fn, this.trailOf(thing.fn));
    else if (thing.kind === "layer") this.drawing.unfold([thing.layer]);
    else if (thing.kind === "node") {
      if (this.drawing.fn !== thing.node.fn) this.drawing.show(thing.node.fn, this.trailOf(thing.node.fn));
      this.drawing.enter(thing.node);
    }
  }

  go(thing) {
    if (thing.kind === "node") { this.outline.reveal(thing.node, this.trailOf(thing.node.fn)); this.showInDrawing(thing); }
    else if (thing.kind === "function") this.drawing.show(thing.fn, this.trailOf(thing.fn));
    this.chosen(thing, "details");
  }
}

function header(programs, isTwo) {
  const record = programs[0].record, names = programs.map((program) => program.record.path.split(/[\\/]/).pop());
  document.getElementById("title").textContent = isTwo ? names.join(" and ") : names[0];
  const { size, parameters, sha256, architecture } = record.about;
  const facts = isTwo ? [] : [
    [{ keg: ".keg", program: "program", gguf: "GGUF", huggingface: "Hugging Face" }[record.kind], ""],
    [architecture, ""], [size === undefined ? "" : bytesText(size), ""], [parameters ? grouped(String(parameters)) : "", "parameters"], [sha256 ? sha256.slice(0, 12) : "", "sha256"],
  ];
  document.getElementById("about").replaceChildren(...facts.filter(([value]) => value).map(([value, name]) => element("li", {}, element("b", {}, value), name ? ` ${name}` : "")));
  if (record.refusal && !isTwo) tell(element("span", {}, element("b", {}, `No graph (${record.refusal.code}). `), `${record.refusal.what} ${record.refusal.remedy}`));
}

function tell(...parts) {
  const box = document.getElementById("banner");
  box.hidden = false;
  box.replaceChildren(...parts);
}

function differing(pane) {
  const seen = new Set();
  const other = pane.panes.find((each) => each !== pane).program;
  return Object.values(pane.program.functions).flatMap((fn) => fn.nodes).filter((node) => !other.ids.has(node.id) && !seen.has(node.id) && seen.add(node.id));
}

function banner(panes) {
  const parts = [];
  for (const [label, found] of Object.entries(DATA.difference.roots)) {
    if (parts.length) parts.push("  ·  ");
    parts.push(element("b", {}, label), found.equal ? " is equal" : " parts at ");
    if (found.equal) continue;
    parts.push(`${found.path.slice(-2).join(" › ")}: ${found.what}  `);
    parts.push(element("span", { class: "left" }, `−${found.only_left.length} `), element("span", { class: "right" }, `+${found.only_right.length}`));
  }
  const counts = [["only_left", "left"], ["only_right", "right"]].flatMap(([key, side]) => DATA.difference[key].map((label) => element("span", { class: side }, `  only ${side}: ${label}`)));
  tell(...parts, ...counts);
  document.getElementById("extra").replaceChildren(element("kbd", {}, "n"), " next difference");
  const next = { at: -1 };
  panes.nextDifference = () => {
    const all = panes.flatMap((pane) => differing(pane).map((node) => [pane, node]));
    if (!all.length) return;
    next.at = (next.at + 1) % all.length;
    const [pane, node] = all[next.at];
    pane.go({ kind: "node", node });
  };
}

function keys(panes) {
  const search = document.getElementById("search");
  search.addEventListener("input", () => {
    const found = panes.map((pane) => pane.outline.setWords(search.value));
    count(panes.map((pane) => pane.program), found[0] === null ? null : found.reduce((a, b) => a + b, 0));
  });
  search.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { search.value = ""; search.dispatchEvent(new Event("input")); panes[0].outline.box.focus(); }
    if (event.key === "Enter" || event.key === "ArrowDown") { panes[0].outline.box.focus(); panes[0].outline.choose(0); event.preventDefault(); }
  });
  const each = (action) => () => panes.forEach(action);
  const actions = {
    "/": () => { search.focus(); search.select(); },
    f: each((pane) => { pane.drawing.fit(); pane.drawing.fresh = true; pane.drawing.paint(); }),
    u: each((pane) => pane.drawing.toggleAll()),
    c: each((pane) => { pane.drawing.constants = !pane.drawing.constants; pane.drawing.unfold([]); }),
    "+": each((pane) => pane.drawing.zoom(1.2)), "=": each((pane) => pane.drawing.zoom(1.2)), "-": each((pane) => pane.drawing.zoom(1 / 1.2)),
    Backspace: each((pane) => pane.drawing.back()), n: () => panes.nextDifference && panes.nextDifference(),
  };
  addEventListener("keydown", (event) => {
    if (event.target === search || event.ctrlKey || event.metaKey || event.altKey || !(event.key in actions)) return;
    event.preventDefault();
    actions[event.key]();
  });
}

function count(programs, found = null) {
  const nodes = programs.map((program) => program.nodeCount.toLocaleString("en")).join(" and ");
  document.getElementById("count").textContent = found === null ? `${nodes} nodes` : `${found.toLocaleString("en")} found`;
}

start();
