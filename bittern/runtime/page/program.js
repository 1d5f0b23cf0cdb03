// One side of the page: a program as lists that are quick to ask, made once from the record of `bittern inspect --json`.

const FAMILIES = {
  structure: 205, arithmetic: 28, compare: 330, bits: 268, convert: 180, shape: 220, index: 48, reduce: 10, real: 300, effects: 0,
};

class Program {
  constructor(record, side) {
    this.record = record;
    this.side = side;
    this.functions = record.functions;
    this.ids = new Set();
    this.byId = new Map();
    for (const [key, fn] of Object.entries(this.functions)) {
      fn.key = key;
      fn.users = fn.nodes.map(() => []);
      fn.nodes.forEach((node, place) => {
        node.fn = fn;
        node.program = this;
        node.place = place;
        for (const input of new Set(node.inputs)) fn.users[input].push(place);
        this.ids.add(node.id);
        if (!this.byId.has(node.id)) this.byId.set(node.id, node);
      });
    }
  }

  get nodeCount() {
    return Object.values(this.functions).reduce((sum, fn) => sum + fn.nodes.length, 0);
  }

  callees(node) {
    return Object.entries(node.calls).map(([name, key]) => [name, this.functions[key]]);
  }

  *search(words) {
    for (const fn of Object.values(this.functions))
      for (const node of fn.nodes) {
        const called = this.callees(node).map(([, callee]) => callee.name).join(" ");
        const text = `${node.label} ${node.op} ${called} ${node.type} ${node.id} ${node.layer} ${node.line}`.toLowerCase();
        if (words.every((word) => text.includes(word))) yield node;
      }
  }
}

function nameOf(node) {
  return node.label || calledName(node) || node.op;
}

function calledName(node) {
  const fn = node.program?.functions[node.calls.function];
  return fn ? fn.name : "";
}

function functionName(fn) {
  return fn.name || "body";
}

function hueOf(family) {
  if (family in FAMILIES) return FAMILIES[family];
  let hash = 7;
  for (const letter of family) hash = (hash * 31 + letter.charCodeAt(0)) % 360;
  return hash;
}

function colourOf(node, dark) {
  if (node.op === "const") return dark ? "#7a7469" : "#c9c1b2";
  if (node.op === "param") return dark ? "#8a8f98" : "#8f949c";
  const hue = hueOf(node.family);
  return dark ? `hsl(${hue} 38% 62%)` : `hsl(${hue} 42% 50%)`;
}

function layerKey(layer) {
  const dot = layer.lastIndexOf(".");
  return [layer.slice(0, dot), Number(layer.slice(dot + 1))];
}

function compareLayers(a, b) {
  const [x, i] = layerKey(a), [y, j] = layerKey(b);
  return x < y ? -1 : x > y ? 1 : i - j;
}

function bytesText(size) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (size >= 1000 && unit < units.length - 1) { size /= 1000; unit += 1; }
  return `${unit ? size.toFixed(1) : size} ${units[unit]}`;
}

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}
