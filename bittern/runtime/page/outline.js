// The outline: a tree of functions, layers, nodes and tensors, of which only the rows in sight are in the document.

const ROW = 26;

class Outline {
  constructor(program, other, onChoose, onOpen) {
    this.program = program;
    this.other = other;
    this.onChoose = onChoose;
    this.onOpen = onOpen;
    this.open = new Set();
    this.words = [];
    this.chosen = -1;
    this.space = element("div", { class: "space" });
    this.box = element("div", { class: "outline", tabindex: "0", role: "tree", "aria-label": "Outline" }, this.space);
    this.box.addEventListener("scroll", () => this.paint());
    this.box.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.paint()).observe(this.box);
    this.roots = this.makeRoots();
    this.roots.slice(0, 1).forEach((row) => this.open.add(row.key));
    this.build();
  }

  makeRoots() {
    const { record, functions } = this.program;
    const rows = Object.entries(record.roots).map(([label, key]) => ({
      kind: "function", fn: functions[key], name: label, key: `f ${label}`, depth: 0, head: true,
    }));
    if (record.tensors.length) rows.push({ kind: "part", part: "tensors", name: `Tensors (${record.tensors.length})`, key: "tensors", depth: 0 });
    if (Object.keys(record.metadata).length) rows.push({ kind: "part", part: "metadata", name: "Metadata", key: "metadata", depth: 0 });
    return rows;
  }

  children(row) {
    const depth = row.depth + 1;
    if (row.kind === "function") return this.nodesOf(row.fn, depth, row.key);
    if (row.kind === "layer") return row.nodes.map((node) => this.nodeRow(node, depth, row.key));
    if (row.kind === "node") {
      const callees = this.program.callees(row.node);
      if (callees.length === 1) return this.nodesOf(callees[0][1], depth, row.key);
      return callees.map(([name, fn]) => ({ kind: "function", fn, name: `${name}: ${functionName(fn)}`, key: `${row.key} ${name}`, depth }));
    }
    if (row.part === "tensors") return this.program.record.tensors.map((tensor) => ({ kind: "tensor", tensor, name: tensor.name, key: `t ${tensor.name}`, depth }));
    if (row.part === "metadata") return Object.entries(this.program.record.metadata).map(([name, value]) => ({ kind: "value", name, value, key: `m ${name}`, depth }));
    return [];
  }

  nodesOf(fn, depth, key) {
    const rows = [], layers = new Map();
    for (const node of fn.nodes) {
      if (!node.layer) { rows.push(this.nodeRow(node, depth, key)); continue; }
      if (!layers.has(node.layer)) {
        const row = { kind: "layer", fn, layer: node.layer, name: node.layer, nodes: [], key: `${key} ${node.layer}`, depth };
        layers.set(node.layer, row);
      }
      layers.get(node.layer).nodes.push(node);
    }
    const sorted = [...layers.values()].sort((a, b) => compareLayers(a.layer, b.layer));
    const heads = rows.filter((row) => row.node.op === "param" || row.node.op === "const");
    const rest = rows.filter((row) => !heads.includes(row));
    const first = sorted.length ? Math.min(...sorted.map((row) => Math.max(...row.nodes.map((node) => node.place)))) : Infinity;
    return [...heads, ...rest.filter((row) => row.node.place < first), ...sorted, ...rest.filter((row) => row.node.place >= first)];
  }

  nodeRow(node, depth, key) {
    return { kind: "node", node, name: nameOf(node), key: `${key} ${node.place}`, depth };
  }

  canOpen(row) {
    if (row.kind === "node") return Object.keys(row.node.calls).length > 0;
    return row.kind === "function" || row.kind === "layer" || row.kind === "part";
  }

  build() {
    this.rows = [];
    if (this.words.length) {
      for (const node of this.program.search(this.words)) this.rows.push({ ...this.nodeRow(node, 0, `s ${node.fn.key}`), found: true });
      for (const tensor of this.program.record.tensors)
        if (this.words.every((word) => `${tensor.name} ${tensor.element}`.toLowerCase().includes(word)))
          this.rows.push({ kind: "tensor", tensor, name: tensor.name, key: `t ${tensor.name}`, depth: 0 });
    } else {
      const stack = [...this.roots].reverse();
      while (stack.length) {
        const row = stack.pop();
        this.rows.push(row);
        if (this.canOpen(row) && this.open.has(row.key)) stack.push(...this.children(row).reverse());
      }
    }
    this.space.style.height = `${this.rows.length * ROW}px`;
    this.paint();
  }

  setWords(text) {
    this.words = text.toLowerCase().split(/\s+/).filter(Boolean);
    this.chosen = -1;
    this.box.scrollTop = 0;
    this.build();
    return this.words.length ? this.rows.length : null;
  }

  toggle(row, want = !this.open.has(row.key)) {
    if (!this.canOpen(row) || this.words.length) return;
    if (want) this.open.add(row.key);
    else this.open.delete(row.key);
    this.build();
  }

  differs(row) {
    if (!this.other) return false;
    if (row.kind === "node") return !this.other.ids.has(row.node.id);
    if (row.kind === "layer") return row.nodes.some((node) => !this.other.ids.has(node.id));
    return row.kind === "function" && row.fn.nodes.some((node) => !this.other.ids.has(node.id));
  }

  paint() {
    const top = this.box.scrollTop, height = this.box.clientHeight || 600;
    const first = Math.max(0, Math.floor(top / ROW) - 6), last = Math.min(this.rows.length, Math.ceil((top + height) / ROW) + 6);
    const made = [];
    for (let place = first; place < last; place += 1) made.push(this.rowElement(this.rows[place], place));
    this.space.replaceChildren(...made);
  }

  rowElement(row, place) {
    const side = this.differs(row) ? ` ${this.program.side}` : "";
    const box = element("div", {
      class: `row ${row.kind === "part" ? "part" : ""} ${row.head ? "head" : ""}${place === this.chosen ? " chosen" : ""}${side}`,
      role: "treeitem", style: `top:${place * ROW}px;padding-left:${12 + 14 * row.depth}px`,
      "aria-level": row.depth + 1, "aria-selected": place === this.chosen, title: this.titleOf(row),
      onclick: () => this.click(row, place), ondblclick: () => this.onOpen(row),
    });
    const fold = this.canOpen(row) && !this.words.length ? (this.open.has(row.key) ? "▾" : "▸") : "";
    box.append(element("span", { class: "fold", onclick: (event) => { event.stopPropagation(); this.toggle(row); } }, fold));
    if (row.kind === "node") box.append(element("span", { class: "dot", style: `background:${colourOf(row.node, isDark())}` }));
    box.append(element("span", { class: "name" }, row.name), ...this.notes(row));
    return box;
  }

  titleOf(row) {
    return row.kind === "node" ? `${row.name}: ${row.node.type}` : row.name;
  }

  notes(row) {
    const note = (text, kind) => element("span", { class: kind }, text);
    if (row.kind === "node") {
      const what = row.node.label && row.node.op !== "const" && row.node.op !== "param" ? calledName(row.node) || row.node.op : row.found ? functionName(row.node.fn) : "";
      return [note(what, "op"), note(row.node.type, "type")];
    }
    if (row.kind === "layer") return [note(`${row.nodes.length} nodes`, "type")];
    if (row.kind === "function") return [note(row.fn.name !== row.name ? row.fn.name : "", "op"), note(`${row.fn.nodes.length} nodes`, "type")];
    if (row.kind === "tensor") return [note(`${row.tensor.element}[${row.tensor.shape.join(", ")}]`, "type")];
    return row.kind === "value" ? [note(row.value, "type")] : [];
  }

  click(row, place) {
    if (this.chosen === place && this.canOpen(row)) this.toggle(row);
    else if (row.kind !== "node") this.toggle(row);
    this.choose(this.rows.indexOf(row) >= 0 ? this.rows.indexOf(row) : place);
    this.box.focus({ preventScroll: true });
  }

  choose(place, quiet = false) {
    if (place < 0 || place >= this.rows.length) return;
    this.chosen = place;
    const top = place * ROW, height = this.box.clientHeight;
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    else if (top + ROW > this.box.scrollTop + height) this.box.scrollTop = top + ROW - height;
    this.paint();
    if (!quiet) this.onChoose(this.rows[place]);
  }

  // Unfold the way of calls to a node and choose its row. trail: the functions on the way, from a root.
  reveal(node, trail) {
    if (!this.words.length && this.rows[this.chosen]?.node !== node) this.unfoldTo(node, trail);
    const place = this.rows.findIndex((row, at) => row.kind === "node" && row.node === node && (at === this.chosen || this.way === undefined || row.key.startsWith(this.way) || this.words.length));
    if (place >= 0) this.choose(place, true);
    else { this.chosen = -1; this.paint(); }
  }

  unfoldTo(node, trail) {
    const steps = [...trail, node.fn], root = this.roots.find((row) => row.fn === steps[0]);
    if (!root) return;
    let key = root.key;
    this.open.add(key);
    const enter = (inner) => {
      if (inner.layer) { key = `${key} ${inner.layer}`; this.open.add(key); }
    };
    for (let at = 0; at + 1 < steps.length; at += 1) {
      const caller = steps[at].nodes.find((each) => Object.values(each.calls).includes(steps[at + 1].key));
      if (!caller) return;
      enter(caller);
      key = `${key} ${caller.place}`;
      this.open.add(key);
      const calls = Object.entries(caller.calls);
      if (calls.length > 1) { key = `${key} ${calls.find(([, callee]) => callee === steps[at + 1].key)[0]}`; this.open.add(key); }
    }
    enter(node);
    this.way = key;
    this.build();
  }

  key(event) {
    const row = this.rows[this.chosen];
    const page = Math.max(1, Math.floor(this.box.clientHeight / ROW) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page };
    if (event.key in steps) this.choose(Math.min(this.rows.length - 1, Math.max(0, this.chosen + steps[event.key])));
    else if (event.key === "Home") this.choose(0);
    else if (event.key === "End") this.choose(this.rows.length - 1);
    else if (event.key === "ArrowRight" && row) this.open.has(row.key) ? this.choose(this.chosen + 1) : this.toggle(row, true);
    else if (event.key === "ArrowLeft" && row) {
      if (this.open.has(row.key)) this.toggle(row, false);
      else for (let place = this.chosen - 1; place >= 0; place -= 1) if (this.rows[place].depth < row.depth) { this.choose(place); break; }
    } else if (event.key === "Enter" && row) this.onOpen(row);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
