// The drawing: one function as a graph in ranks, on a canvas. Folded layers are one box; only what is in sight is drawn.

const BOX = { width: 188, height: 42, across: 22, down: 46, most: 36 };

function isDark() {
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

class Drawing {
  constructor(program, other, onChoose, onOpen) {
    this.program = program;
    this.other = other;
    this.onChoose = onChoose;
    this.onOpen = onOpen;
    this.constants = false;
    this.canvas = element("canvas", { tabindex: "0", "aria-label": "Graph" });
    this.path = element("div", { class: "path" });
    this.box = element("div", { class: "drawing" }, this.canvas, this.path);
    this.trail = [];
    this.chosen = null;
    this.hover = null;
    this.view = { x: 0, y: 0, scale: 1 };
    this.listen();
    new ResizeObserver(() => { if (this.fresh) this.fit(); this.paint(); }).observe(this.box);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.paint());
  }

  show(fn, trail = []) {
    this.fn = fn;
    this.trail = trail;
    this.unfolded = new Set();
    this.chosen = null;
    this.layOut();
    this.fresh = true;
    this.fit();
    this.showPath();
    this.paint();
  }

  showPath() {
    const steps = [...this.trail, this.fn];
    const parts = steps.flatMap((fn, place) => {
      const go = element("button", { type: "button", onclick: () => this.show(fn, steps.slice(0, place)) }, functionName(fn));
      if (place === steps.length - 1) go.setAttribute("aria-current", "true");
      return place ? [element("i", {}, "›"), go] : [go];
    });
    this.path.replaceChildren(...parts);
  }

  back() {
    if (this.trail.length) this.show(this.trail[this.trail.length - 1], this.trail.slice(0, -1));
  }

  enter(node) {
    const [, callee] = this.program.callees(node)[0] || [];
    if (callee) this.show(callee, [...this.trail, this.fn]);
  }

  // Boxes and the edges between them: items of tuples are their edges, constants are shown on request.
  boxes() {
    const fn = this.fn, boxOf = new Array(fn.nodes.length).fill(null), layers = new Map(), boxes = [];
    const add = (box) => { box.place = boxes.length; box.after = new Set(); box.before = new Set(); boxes.push(box); return box; };
    fn.nodes.forEach((node, place) => {
      if (node.op === "item" && boxOf[node.inputs[0]]) {
        boxOf[place] = boxOf[node.inputs[0]];
        if (boxOf[place].layer) boxOf[place].nodes.push(node);
        return;
      }
      if (node.layer && !this.unfolded.has(node.layer)) {
        if (!layers.has(node.layer)) layers.set(node.layer, add({ layer: node.layer, nodes: [] }));
        layers.get(node.layer).nodes.push(node);
        boxOf[place] = layers.get(node.layer);
        return;
      }
      if ((node.op === "const" || node.op === "size") && !this.constants && place !== fn.result) return;
      boxOf[place] = add({ node, nodes: [node] });
    });
    fn.nodes.forEach((node, place) => {
      const to = boxOf[place];
      if (!to) return;
      for (const input of node.inputs) {
        const from = boxOf[input];
        if (from && from !== to) { from.after.add(to); to.before.add(from); }
      }
    });
    this.boxOf = boxOf;
    return boxes;
  }

  layOut() {
    const boxes = this.boxes();
    rank(boxes);
    const ranks = [];
    for (const box of boxes) (ranks[box.rank] ||= []).push(box);
    const rows = [];
    for (const row of ranks.filter(Boolean)) for (let at = 0; at < row.length; at += BOX.most) rows.push(row.slice(at, at + BOX.most));
    place(rows);
    this.boxes_ = boxes;
    this.edges = boxes.flatMap((from) => [...from.after].map((to) => ({ from, to })));
    const right = Math.max(0, ...boxes.map((box) => box.x + BOX.width)), left = Math.min(0, ...boxes.map((box) => box.x));
    const bottom = Math.max(0, ...boxes.map((box) => box.y + BOX.height));
    this.extent = { left, right, bottom };
  }

  fit() {
    const width = this.box.clientWidth, height = this.box.clientHeight;
    if (!width || !height) return;
    const wide = this.extent.right - this.extent.left + 80, tall = this.extent.bottom + 110;
    const whole = Math.min(1, width / wide, height / tall);
    const scale = whole > 0.6 ? whole : Math.min(1, Math.max(0.8, width / wide));
    const xs = this.boxes_.map((box) => box.x).sort((a, b) => a - b), trunk = (xs[xs.length >> 1] || 0) + BOX.width / 2;
    const centre = wide * scale > width ? trunk : (this.extent.left + this.extent.right) / 2;
    this.view = { scale, x: width / 2 - centre * scale, y: 64 };
  }

  paint() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.draw(); });
  }

  draw() {
    const width = this.box.clientWidth, height = this.box.clientHeight, ratio = devicePixelRatio || 1;
    if (!this.fn || !width || !height) return;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
    }
    const pen = this.canvas.getContext("2d"), { x, y, scale } = this.view, style = getComputedStyle(document.body);
    const ink = (name) => style.getPropertyValue(`--${name}`).trim();
    this.ink = Object.fromEntries(["panel", "ink", "soft", "faint", "line", "accent", "accent-soft", "left", "right", "left-soft", "right-soft"].map((name) => [name, ink(name)]));
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.setTransform(ratio * scale, 0, 0, ratio * scale, ratio * x, ratio * y);
    const sight = { left: -x / scale, top: -y / scale, right: (width - x) / scale, bottom: (height - y) / scale };
    this.drawEdges(pen, sight, scale);
    const near = (box) => box.x < sight.right && box.x + BOX.width > sight.left && box.y < sight.bottom && box.y + BOX.height > sight.top;
    for (const box of this.boxes_) if (near(box)) this.drawBox(pen, box, scale);
    this.drawMap(pen, width, height, ratio, sight);
  }

  drawEdges(pen, sight, scale) {
    pen.lineWidth = 1 / Math.min(1, Math.max(scale, 0.5));
    const isLong = ({ from, to }) => to.rank - from.rank > 4;
    const path = (edge) => {
      const x = edge.from.x + BOX.width / 2, y = edge.from.y + BOX.height, u = edge.to.x + BOX.width / 2, v = edge.to.y;
      const bend = Math.max(14, Math.min(70, Math.abs(v - y) / 2));
      pen.moveTo(x, y);
      pen.bezierCurveTo(x, y + bend, u, v - bend, u, v);
    };
    const near = ({ from, to }) => Math.min(from.y, to.y) < sight.bottom && Math.max(from.y, to.y) + BOX.height > sight.top;
    const seen = this.edges.filter(near), busy = this.chosen;
    pen.strokeStyle = this.ink.faint;
    for (const long of [true, false]) {
      pen.globalAlpha = (long ? 0.16 : 0.8) * (busy ? 0.75 : 1);
      pen.beginPath();
      for (const edge of seen) if (edge.from !== busy && edge.to !== busy && isLong(edge) === long) path(edge);
      pen.stroke();
    }
    pen.globalAlpha = 1;
    pen.strokeStyle = this.ink.accent;
    pen.lineWidth *= 1.8;
    pen.beginPath();
    for (const edge of seen) if (busy && (edge.from === busy || edge.to === busy)) path(edge);
    pen.stroke();
  }

  drawBox(pen, box, scale) {
    const { x, y } = box, { width, height } = BOX, ink = this.ink;
    const differs = this.other && box.nodes.some((node) => !this.other.ids.has(node.id));
    const side = this.program.side, isChosen = box === this.chosen;
    if (box.layer) for (const shift of [6, 3]) { rounded(pen, x + shift, y + shift, width, height, 8); pen.fillStyle = ink.panel; pen.strokeStyle = ink.line; pen.lineWidth = 1; pen.fill(); pen.stroke(); }
    rounded(pen, x, y, width, height, 8);
    pen.fillStyle = isChosen ? ink["accent-soft"] : differs ? ink[`${side}-soft`] : ink.panel;
    pen.strokeStyle = isChosen ? ink.accent : differs ? ink[side] : box === this.hover ? ink.soft : ink.line;
    pen.lineWidth = isChosen || differs ? 1.6 : 1;
    pen.fill();
    pen.stroke();
    const node = box.node;
    if (node) { rounded(pen, x + 8, y + 10, 4, height - 20, 2); pen.fillStyle = colourOf(node, isDark()); pen.fill(); }
    if (scale < 0.3) return;
    const family = getComputedStyle(document.body).fontFamily;
    const title = box.layer || nameOf(node), has = node && Object.keys(node.calls).length > 0;
    const called = node ? calledName(node) || node.op : "";
    const under = box.layer ? `${[...new Set(box.nodes.map(calledName).filter(Boolean))].join(", ")}  ${box.nodes.length} nodes`.trim() : node.label && called !== node.op ? called : node.label && node.op !== "param" && node.op !== "const" ? `${node.op}  ${node.type}` : node.type;
    pen.fillStyle = ink.ink;
    pen.font = `600 12.5px ${family}`;
    pen.textBaseline = "middle";
    const start = x + (box.layer ? 14 : 20), room = width - (has || box.layer ? 44 : 30);
    pen.fillText(clipped(pen, title, room), start, y + 14.5);
    pen.fillStyle = ink.soft;
    pen.font = `11px ${family}`;
    pen.fillText(clipped(pen, under, room), start, y + 29.5);
    if (has || box.layer) { pen.fillStyle = ink.faint; pen.font = `14px ${family}`; pen.fillText(box.layer ? "+" : "›", x + width - 18, y + height / 2); }
  }

  // A small map of the whole where it does not fit.
  drawMap(pen, width, height, ratio, sight) {
    const { left, right, bottom } = this.extent, wide = right - left || 1, tall = bottom || 1;
    if (sight.left <= left && sight.right >= right && sight.top <= 0 && sight.bottom >= tall) { this.map = null; return; }
    const scale = Math.min(110 / wide, (height - 120) / tall, 0.12);
    const w = wide * scale, h = tall * scale, x = width - w - 22, y = height - h - 22;
    this.map = { x, y, w, h, scale, left };
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    rounded(pen, x - 6, y - 6, w + 12, h + 12, 6);
    pen.fillStyle = this.ink.panel;
    pen.strokeStyle = this.ink.line;
    pen.lineWidth = 1;
    pen.globalAlpha = 0.92;
    pen.fill();
    pen.globalAlpha = 1;
    pen.stroke();
    pen.fillStyle = this.ink.faint;
    for (const box of this.boxes_) pen.fillRect(x + (box.x - left) * scale, y + box.y * scale, Math.max(1, BOX.width * scale), Math.max(1, BOX.height * scale));
    pen.strokeStyle = this.ink.accent;
    const seen = (value, low, high) => Math.min(high, Math.max(low, value));
    const l = seen((sight.left - left) * scale, 0, w), t = seen(sight.top * scale, 0, h);
    pen.strokeRect(x + l, y + t, seen((sight.right - left) * scale, 0, w) - l, seen(sight.bottom * scale, 0, h) - t);
  }

  boxAt(event) {
    const bounds = this.canvas.getBoundingClientRect(), { x, y, scale } = this.view;
    const u = (event.clientX - bounds.left - x) / scale, v = (event.clientY - bounds.top - y) / scale;
    return this.boxes_.find((box) => u >= box.x && u <= box.x + BOX.width && v >= box.y && v <= box.y + BOX.height) || null;
  }

  zoom(factor, u = this.box.clientWidth / 2, v = this.box.clientHeight / 2) {
    const { x, y, scale } = this.view, next = Math.min(2.5, Math.max(0.04, scale * factor)), by = next / scale;
    this.view = { scale: next, x: u - (u - x) * by, y: v - (v - y) * by };
    this.fresh = false;
    this.paint();
  }

  move(dx, dy) {
    this.view.x += dx;
    this.view.y += dy;
    this.fresh = false;
    this.paint();
  }

  listen() {
    let drag = null;
    this.canvas.addEventListener("pointerdown", (event) => {
      drag = { x: event.clientX, y: event.clientY, far: 0, map: this.onMap(event) };
      this.canvas.setPointerCapture(event.pointerId);
      if (drag.map) this.goTo(event);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (drag && drag.map) { this.goTo(event); return; }
      if (drag) {
        const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
        drag.far += Math.abs(dx) + Math.abs(dy);
        Object.assign(drag, { x: event.clientX, y: event.clientY });
        this.move(dx, dy);
        return;
      }
      const hover = this.boxAt(event);
      if (hover !== this.hover) { this.hover = hover; this.canvas.title = hover && hover.node ? `${nameOf(hover.node)}: ${hover.node.type}` : ""; this.paint(); }
    });
    this.canvas.addEventListener("pointerup", (event) => {
      const isClick = drag && drag.far < 5 && !drag.map;
      drag = null;
      if (isClick) this.choose(this.boxAt(event));
    });
    this.canvas.addEventListener("dblclick", (event) => { const box = this.boxAt(event); if (box) this.openBox(box); });
    this.canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const bounds = this.canvas.getBoundingClientRect();
      if (event.ctrlKey || event.metaKey) this.zoom(Math.exp(-event.deltaY / 240), event.clientX - bounds.left, event.clientY - bounds.top);
      else this.move(-event.deltaX, -event.deltaY);
    }, { passive: false });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
  }

  onMap(event) {
    const bounds = this.canvas.getBoundingClientRect(), u = event.clientX - bounds.left, v = event.clientY - bounds.top, map = this.map;
    return Boolean(map) && u >= map.x - 6 && u <= map.x + map.w + 6 && v >= map.y - 6 && v <= map.y + map.h + 6;
  }

  goTo(event) {
    const bounds = this.canvas.getBoundingClientRect(), map = this.map;
    if (!map) return;
    const x = (event.clientX - bounds.left - map.x) / map.scale + map.left, y = (event.clientY - bounds.top - map.y) / map.scale;
    this.view.x = this.box.clientWidth / 2 - x * this.view.scale;
    this.view.y = this.box.clientHeight / 2 - y * this.view.scale;
    this.fresh = false;
    this.paint();
  }

  choose(box) {
    this.chosen = box;
    this.paint();
    if (box) this.onChoose(box.layer ? { kind: "layer", layer: box.layer, nodes: box.nodes, fn: this.fn } : { kind: "node", node: box.node });
  }

  openBox(box) {
    if (box.layer) this.unfold([box.layer]);
    else this.onOpen({ kind: "node", node: box.node });
  }

  unfold(layers) {
    for (const layer of layers) this.unfolded.add(layer);
    this.layOut();
    this.fit();
    this.paint();
  }

  toggleAll() {
    const layers = new Set(this.fn.nodes.map((node) => node.layer).filter(Boolean));
    if (this.unfolded.size) { this.unfolded.clear(); this.unfold([]); } else this.unfold(layers);
  }

  reveal(node, trailOf) {
    if (node.fn !== this.fn) this.show(node.fn, trailOf(node.fn));
    const box = this.boxOf[node.place];
    this.chosen = box;
    if (box) {
      const { x, y, scale } = this.view, u = x + (box.x + BOX.width / 2) * scale, v = y + (box.y + BOX.height / 2) * scale;
      const w = this.box.clientWidth, h = this.box.clientHeight;
      if (u < 60 || u > w - 60 || v < 60 || v > h - 40) { this.view.x += w / 2 - u; this.view.y += h / 2 - v; this.fresh = false; }
    }
    this.paint();
  }

  key(event) {
    const from = this.chosen;
    const nearest = (boxes) => [...boxes].sort((a, b) => Math.abs(a.x - (from ? from.x : 0)) - Math.abs(b.x - (from ? from.x : 0)))[0];
    let next = null;
    if (event.key === "ArrowDown") next = from ? nearest(from.after) : this.boxes_[0];
    else if (event.key === "ArrowUp") next = from ? nearest(from.before) : this.boxes_[0];
    else if ((event.key === "ArrowLeft" || event.key === "ArrowRight") && from) {
      const by = event.key === "ArrowRight" ? 1 : -1;
      next = this.boxes_.filter((box) => box.y === from.y && (box.x - from.x) * by > 0).sort((a, b) => (a.x - b.x) * by)[0];
    } else if (event.key === "Enter" && from) this.openBox(from);
    else return;
    event.preventDefault();
    event.stopPropagation();
    if (next) { this.choose(next); if (next.node) this.reveal(next.node, () => this.trail); }
  }
}

// Longest path from the sources; a source stands just above its first user. Cycles between folded boxes end where they close.
function rank(boxes) {
  const open = boxes.map((box) => box.before.size), ready = boxes.filter((box) => !box.before.size), done = new Set();
  for (const box of boxes) box.rank = 0;
  let at = 0;
  while (done.size < boxes.length) {
    if (at === ready.length) ready.push(boxes.find((box) => !done.has(box)));
    const box = ready[at++];
    if (done.has(box)) continue;
    done.add(box);
    for (const next of box.after) {
      if (done.has(next)) continue;
      next.rank = Math.max(next.rank, box.rank + 1);
      if (--open[next.place] === 0) ready.push(next);
    }
  }
  for (const box of boxes) if (!box.before.size && box.after.size) box.rank = Math.max(0, Math.min(...[...box.after].map((next) => next.rank)) - 1);
}

// Rows of boxes: each as near as it can be to the middle of its neighbours, in two sweeps, without overlaps.
function place(rows) {
  const step = BOX.width + BOX.across;
  rows.forEach((row, at) => row.forEach((box, place) => { box.y = at * (BOX.height + BOX.down); box.x = (place - (row.length - 1) / 2) * step; }));
  const middle = (own, boxes) => {  // what is far off counts little
    let sum = 0, weight = 0;
    for (const box of boxes) { const near = 1 / (own.rank - box.rank || 1) ** 4; sum += near * box.x; weight += near; }
    return weight ? sum / weight : own.x;
  };
  const settle = (row, side) => {
    for (const box of row) box.want = middle(box, box[side]);
    row.sort((a, b) => a.want - b.want);
    let end = -Infinity;
    for (const box of row) { box.x = Math.max(box.want, end); end = box.x + step; }
    const shift = row.reduce((sum, box) => sum + box.want - box.x, 0) / row.length;
    for (const box of row) box.x += shift;
  };
  for (const row of rows) settle(row, "before");
  for (const row of [...rows].reverse()) settle(row, "after");
  for (const row of rows) settle(row, "before");
}

function rounded(pen, x, y, width, height, radius) {
  pen.beginPath();
  pen.roundRect(x, y, width, height, radius);
}

function clipped(pen, text, room) {
  if (pen.measureText(text).width <= room) return text;
  let low = 0, high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (pen.measureText(`${text.slice(0, middle)}…`).width <= room) low = middle;
    else high = middle - 1;
  }
  return `${text.slice(0, low)}…`;
}
