// What is known of the thing that was chosen: a node with its ten facts, a layer, a function, a tensor.

const MODES = { own: "owned", "&": "borrowed", "": "shared" };
const POLICIES = { strict: "strict: the same bits on every chip", seeded: "seeded: its seed repeats it", creative: "creative: its draws are recorded" };

class Details {
  constructor(programs, onGo) {
    this.programs = programs;
    this.onGo = onGo;
    this.box = element("section", { class: "details", "aria-live": "polite", "aria-label": "Details" });
  }

  show(thing, program) {
    const parts = {
      node: () => this.node(thing.node, program), layer: () => this.layer(thing, program), function: () => this.fn(thing.fn, program),
      tensor: () => this.tensor(thing.tensor), value: () => [heading(thing.name), element("pre", {}, thing.value)], part: () => this.file(program),
    }[thing.kind]();
    this.box.replaceChildren(...parts);
    this.box.scrollTop = 0;
  }

  node(node, program) {
    const called = program.callees(node), inputs = node.inputs.map((place) => node.fn.nodes[place]);
    const facts = [
      ["operation", [node.op, ...called.map(([, fn]) => functionName(fn))].join(" ")], ["family", node.family],
      ["input types", inputs.map((input) => input.element).join(", ") || "none"], ["output type", node.element],
      ["shapes", `${inputs.map((input) => input.shape).join(", ") || "none"} → ${node.shape}`], ["bits a value", node.bits || "none"],
      ["packing", node.packing.join("; ") || "nothing is stored"], ["effects", node.effects.join(", ") || "none: pure"],
      ["ownership", node.ownership.map((mode) => MODES[mode]).join(", ") || "no input"], ["space", node.space],
      ["policy", POLICIES[node.policy] || node.policy], ["needs", node.needs],
    ];
    const place = [["source", node.line || "none"], ["layer", node.layer], ["function", functionName(node.fn)], ["id", node.id]];
    return [
      heading(nameOf(node)), element("p", {}, node.type), ...this.twins(node, program),
      element("h3", {}, "Facts"), list(facts), element("h3", {}, "Cost"), list(costRows(node.cost)),
      element("h3", {}, "Where"), list(place.filter(([, text]) => text)),
      ...(Object.keys(node.attributes).length ? [element("h3", {}, "Attributes"), list(Object.entries(node.attributes))] : []),
      ...this.links("Calls", called.map(([name, fn]) => ({ name: functionName(fn), note: name, go: { kind: "function", fn } })), program),
      ...this.links("Inputs", inputs.map((input) => ({ name: nameOf(input), note: input.type, go: { kind: "node", node: input } })), program),
      ...this.links("Used by", node.fn.users[node.place].map((at) => node.fn.nodes[at]).map((user) => ({ name: nameOf(user), note: user.type, go: { kind: "node", node: user } })), program),
    ];
  }

  // Whether the other graph has the node, and what stands under its label there.
  twins(node, program) {
    const other = this.programs.find((each) => each !== program);
    if (!other) return [];
    if (other.ids.has(node.id)) return [element("p", {}, "In both graphs.")];
    const twin = node.label ? [...other.byId.values()].find((each) => each.label === node.label && each.fn.name === node.fn.name) : null;
    const link = twin ? this.links(`Only here; the other's ${node.label}`, [{ name: `${twin.op}`, note: twin.type, go: { kind: "node", node: twin } }], other) : [element("p", {}, "Only in this graph.")];
    return link;
  }

  layer(thing, program) {
    const weights = thing.nodes.filter((node) => node.op === "const");
    const sizes = new Map();
    for (const node of weights) {
      const size = Number((/(\d+) bytes$/.exec(node.attributes.data || "") || [])[1] || 0);
      sizes.set(node.element, (sizes.get(node.element) || 0) + size);
    }
    return [
      heading(thing.layer), element("p", {}, `${thing.nodes.length} nodes, ${weights.length} constants`),
      ...bars("Constants by element", sizes),
      ...this.links("Calls", thing.nodes.filter((node) => Object.keys(node.calls).length).map((node) => ({ name: nameOf(node), note: node.op, go: { kind: "node", node } })), program),
      ...this.links("Constants", weights.map((node) => ({ name: node.label || "const", note: node.type, go: { kind: "node", node } })), program),
    ];
  }

  fn(fn, program) {
    const params = fn.params.map((param) => [param.name, `${param.mode === "own" ? "own " : param.mode}${param.type}`]);
    const histogram = new Map();
    for (const node of fn.nodes) { const name = calledName(node) || node.op; histogram.set(name, (histogram.get(name) || 0) + 1); }
    const rows = [["result", fn.type], ["dimensions", fn.dims.join(", ") || "none"], ["where", fn.where.join(", ") || "nothing"], ["effects", fn.effects.join(", ") || "none: pure"], ["nodes", String(fn.nodes.length)], ["id", fn.key]];
    return [
      heading(functionName(fn)), element("p", {}, fn.type), ...(params.length ? [element("h3", {}, "Parameters"), list(params)] : []),
      element("h3", {}, "Function"), list(rows), element("h3", {}, "Cost"), list(costRows(fn.cost)), ...bars("Operations", histogram, String, 12),
      ...this.links("Ideal", fn.ideal ? [{ name: "what the reference evaluates", note: "", go: { kind: "function", fn: program.functions[fn.ideal] } }] : [], program),
    ];
  }

  tensor(tensor) {
    return [heading(tensor.name), element("p", {}, `${tensor.element}[${tensor.shape.join(", ")}]`),
      list([["bits a value", String(tensor.bits)], ["size", `${bytesText(tensor.size)} (${tensor.size} bytes)`], ["offset", String(tensor.offset)], ["file", tensor.file], ["made by", tensor.steps.join("; ") || "stored as it is"]])];
  }

  file(program) {
    const sizes = new Map();
    for (const tensor of program.record.tensors) sizes.set(tensor.element, (sizes.get(tensor.element) || 0) + tensor.size);
    return [heading(program.record.path.split(/[\\/]/).pop()), ...bars("Bytes by element", sizes),
      element("h3", {}, "File"), list(Object.entries(program.record.about).map(([name, value]) => [name, aboutText(value)]))];
  }

  links(title, rows, program) {
    if (!rows.length) return [];
    const items = rows.map(({ name, note, go }) => element("li", {}, element("button", { type: "button", onclick: () => this.onGo(go, program) }, element("span", {}, name), element("small", {}, note))));
    return [element("h3", {}, title), element("ul", {}, ...items)];
  }
}

function heading(text) {
  return element("h2", {}, text);
}

function aboutText(value) {
  return value && typeof value === "object" ? Object.entries(value).map(([name, size]) => `${name} = ${size}`).join(", ") : String(value);
}

function list(rows) {
  const isCode = new Set(["id", "source", "shapes", "result", "data"]);
  return element("dl", {}, ...rows.flatMap(([name, text]) => [element("dt", {}, name), element("dd", {}, isCode.has(name) ? element("code", {}, text) : text)]));
}

function costRows(cost) {
  const rows = [["mul-adds", grouped(cost.macs)], ["operations", grouped(cost.operations)], ["bytes read", grouped(cost.read)], ["bytes written", grouped(cost.written)]];
  return cost.note ? [...rows, ["note", cost.note]] : rows;
}

// Thousands apart in every number of a polynomial.
function grouped(text) {
  return text.replace(/\d{5,}/g, (digits) => digits.replace(/\B(?=(\d{3})+$)/g, "\u202f")).replaceAll(" * ", " ");
}

function bars(title, counts, shown = bytesText, most = 24) {
  if (!counts.size) return [];
  const rows = [...counts].sort((a, b) => b[1] - a[1]).slice(0, most), top = rows[0][1] || 1;
  return [element("h3", {}, title), element("div", { class: "bars" }, ...rows.map(([name, count]) =>
    element("div", {}, element("span", { title: name, style: "overflow:hidden;text-overflow:ellipsis;white-space:nowrap" }, name), element("i", { style: `width:${Math.max(1, (100 * count) / top)}%` }), element("span", {}, shown(count)))))];
}
