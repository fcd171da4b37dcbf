"use strict";
// The interactive figures. plotly.js draws; every number and every text comes from the page's data.
(() => {
  const {CONFIG, el, colour, hue, narrow, short, logAxis, room, layout, label, lines, points, words, table, say, whenChanged} = parts;
  const data = document.getElementById("data");
  const sets = JSON.parse(data.textContent), plotPx = Number(data.dataset.plotPx);
  const form = document.getElementById("controls");
  const LEVELS = {dram: ["square", "DRAM"], l2: ["diamond", "L2"], sm: ["circle", "SM"], shared: ["triangle-up", "shared"]};
  const NAMES = {asked: "asked", l1: "L1", l2: "L2", dram: "DRAM", shared: "shared", sm: "SM"};
  const KINDS = {rung: ["circle", "solid"], law: ["square", "dash"], peer: ["star", "dot"]};
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  let view, place = "nested", turn = 0;

  const chosen = name => new Set([...form.querySelectorAll(`input[name=${name}]:checked`)].map(box => box.value));
  const binding = row => row.bound_by === "shared" && row.levels.sm ? "sm" : row.bound_by;

  function rows() {
    const kinds = chosen("kind"), precision = el("precision").value;
    return view.rows.filter(row => kinds.has(row.kind) && (precision === "" || row.precision === precision));
  }

  // ---- the roofline

  function rooflineTraces(shown, right, at) {
    const paper = colour("paper"), muted = colour("muted"), levels = chosen("level"), nested = place === "nested";
    const width = level => nested || level === place || place === "shared" && level === "sm" ? 2.2 : 1.2;
    const roofs = view.roofs.filter(roof => roof.level === "pipe" || levels.has(roof.level))
      .map(roof => lines(roof.x, roof.y, {line: {color: hue(roof.level), width: width(roof.level)}}));
    const leads = Object.keys(KINDS).map(kind => {
      const x = [], y = [];
      for (const row of shown.filter(each => each.kind === kind)) {
        const own = Object.entries(row.levels).filter(([level]) => level in LEVELS).map(([, point]) => point.x);
        x.push(own.length && nested ? Math.min(...own) : view.x[0], right, null);
        y.push(row.y, row.y, null);
      }
      return lines(x, y, {line: {color: muted, width: 0.8, dash: KINDS[kind][1]}, opacity: 0.8});
    });
    const ties = lines(shown.flatMap(() => [right, at(8), null]), shown.flatMap(row => [row.y, row.label_y, null]), {line: {color: muted, width: 0.8}});
    const named = words(shown.map(() => at(10)), shown.map(row => row.label_y), shown.map(caption), {
      hovertext: shown.map(row => row.hover), hoverinfo: "text",
      textfont: {color: shown.map(row => row.bound_by ? hue(row.bound_by in LEVELS ? row.bound_by : "pipe") : colour("ink"))},
    });
    const marker = (level, symbol, some, strong) => ({
      symbol: some.map(row => row.timed ? symbol : `${symbol}-open`), color: hue(level),
      size: some.map(row => strong(row) ? 13 : 8), line: {color: some.map(row => row.timed ? paper : hue(level)), width: some.map(row => row.timed ? 0.8 : 1.8)},
    });
    const groups = nested
      ? Object.keys(LEVELS).filter(level => levels.has(level)).map(level => [level, LEVELS[level][0], shown.filter(row => row.levels[level])])
      : Object.keys(KINDS).map(kind => [place, KINDS[kind][0], shown.filter(row => row.kind === kind && row.levels[place])]);
    const dots = groups.map(([level, symbol, some]) => points(
      some.map(row => row.levels[level].x), some.map(row => row.y), some.map(row => row.levels[level].hover),
      marker(level, symbol, some, nested ? row => binding(row) === level : () => true), {ids: some.map(row => row.name), cliponaxis: false},
    ));
    return [...roofs, ...leads, ties, named, ...dots];
  }

  function caption(row) {
    const name = short(row.label), point = place === "nested" ? null : row.levels[place];
    const mark = point && point.over ? " ▲" : "";
    if (narrow()) return `${name}${mark}`;
    if (point) return `${name}  ${point.of_dram_text} of DRAM${mark}`;
    const rate = row.timed ? row.y_text : row.roof_text && `≤ ${row.roof_text}`;
    return `${name}  ${rate}${row.fraction_text && place === "nested" ? ` (${row.fraction_text})` : ""}`;
  }

  function roofline(moved) {
    const chart = el("chart-roofline"), shown = rows(), small = narrow();
    const margin = {l: small ? 46 : 62, r: 4, t: 12, b: 48}, width = chart.clientWidth - margin.l - margin.r;
    const [left, right] = view.x, [low, high] = view.y;
    const decades = Math.log10(right / left), space = small ? 118 : 268, extra = room(decades, width, space);
    const perDecade = width / (decades + extra), at = px => right * 10 ** (px / perDecade);
    const angle = -Math.atan2(plotPx / Math.log10(high / low), perDecade) * 180 / Math.PI, levels = chosen("level");
    const notes = view.roofs.filter(roof => roof.level === "pipe" || levels.has(roof.level)).map(roof => roof.level === "pipe"
      ? label(right, roof.value, roof.text, {xanchor: "right", yanchor: "bottom", yshift: 2, borderpad: 1, bgcolor: colour("paper"), font: {color: hue("pipe")}})
      : label(low * 1.1 / roof.value, low * 1.1, roof.text.replace("SM data pipe", "SM"), {xanchor: "left", yanchor: "bottom", xshift: small ? -13 : -15, yshift: 4, textangle: angle, font: {color: hue(roof.level)}}));
    const title = place === "nested" ? "FLOP per byte at the level" : `FLOP per byte, by ${place === "asked" ? "what lanes ask for" : `${NAMES[place]}'s bytes`}`;
    const yAxis = logAxis(low, high, 0, "FLOP/s");
    yAxis.ticktext = yAxis.tickvals.map(value => value >= 1e12 ? `${value / 1e12} T` : value >= 1e9 ? `${value / 1e9} G` : `${value / 1e6} M`);
    if (small) yAxis.title.text = "";
    const full = () => Plotly.react(chart, rooflineTraces(shown, right, at), layout(plotPx + margin.t + margin.b, margin, {
      xaxis: logAxis(left, right, extra, title), yaxis: yAxis, annotations: notes,
    }), CONFIG);
    const finding = view.findings[place];
    say("roofline", finding);
    table("numbers-roofline", ...rooflineTable(shown));
    const mine = ++turn, last = chart.data ? chart.data.length : 0;
    if (!moved || still.matches || !last) return full();
    // The points glide to the bytes of the level that was chosen; then the figure is drawn anew in its colours.
    const next = rooflineTraces(shown, right, at).slice(-3), traces = next.map((_, index) => last - 3 + index);
    const fits = next.every((trace, index) => trace.x.length === chart.data[traces[index]].x.length);
    if (!fits) return full();
    return Plotly.animate(chart, {data: next.map(trace => ({x: trace.x})), traces}, {
      transition: {duration: 700, easing: "cubic-in-out"}, frame: {duration: 700, redraw: false}, mode: "immediate",
    }).then(() => mine === turn && full(), () => mine === turn && full());
  }

  function rooflineTable(shown) {
    if (place === "nested") {
      const levels = [...chosen("level")];
      return [["kernel", "rate", "bound by", "its roof", "of roof", ...levels.map(level => `${NAMES[level]}, FLOP/byte`)],
        shown.map(row => [row.name, row.y_text, row.bound_text, row.roof_text, row.fraction_text, ...levels.map(level => row.levels[level] && row.levels[level].x_text)])];
    }
    return [["kernel", `${NAMES[place]}, FLOP/byte`, "rate", "of the DRAM roof there", "of its own roof", "bytes", "origin"],
      shown.filter(row => row.levels[place]).map(row => {
        const point = row.levels[place];
        return [row.name, point.x_text, row.y_text, point.of_dram_text + (point.over ? " (impossible)" : ""), point.own_text, point.bytes.toLocaleString("en"), point.origin];
      })];
  }

  // ---- the other figures

  function law() {
    el("figure-law").hidden = !view.law;
    if (!view.law) return;
    const chart = el("chart-law"), found = view.law, small = narrow(), margin = {l: small ? 40 : 62, r: 6, t: 12, b: 48};
    const [low, high] = found.x, edges = [...new Set(found.points.map(point => point.x))].sort((a, b) => a - b);
    const ys = [...found.points.map(point => point.y), ...found.curves.flatMap(curve => curve.y), found.limit];
    const bottom = Math.min(...ys) / 1.3, top = Math.max(...ys) * 1.6;
    const looks = [[colour("fp32"), "solid", 1.8], [colour("dram"), "dot", 1.4], [colour("dram"), "solid", 1.8]];
    const curves = found.curves.map((curve, index) => lines(curve.x, curve.y, {line: {color: looks[index][0], dash: looks[index][1], width: looks[index][2]}}));
    const limit = lines([low, high], [found.limit, found.limit], {line: {color: colour("muted"), dash: "dash", width: 1.4}});
    const three = point => point.law === "T/6", at = new Map();
    for (const point of found.points) {
      const spot = `${point.law} ${point.x_text} ${point.y_text}`;
      at.set(spot, [...(at.get(spot) || []), point]);
    }
    const groups = [...at.values()];
    const dots = points(found.points.map(p => p.x), found.points.map(p => p.y), groups.length ? found.points.map(p => at.get(`${p.law} ${p.x_text} ${p.y_text}`).map(each => each.hover).join("<br>")) : [],
      {symbol: found.points.map(p => three(p) ? "square-open" : "circle-open"), size: 10, color: found.points.map(p => three(p) ? colour("fp32") : colour("dram")), line: {width: 2}});
    const behind = {bgcolor: colour("paper"), borderpad: 0};  // a line that passes a name passes behind it
    const names = (small ? [] : groups).map(group => {
      const [p] = group, below = three(p);
      const text = `${group.slice(0, 3).map(each => each.label).join(", ")}${group.length > 3 ? `, ${group.length - 3} more` : ""}`;
      return label(p.x, p.y, text, {xanchor: below ? "left" : "right", yanchor: below ? "top" : "bottom", xshift: below ? 8 : -8, yshift: below ? -2 : 2, font: {size: 11, color: colour("muted")}, ...behind});
    });
    const ends = found.curves.slice(0, 2).map((curve, index) => label(curve.x.at(-1), curve.y.at(-1), curve.name, {xanchor: "right", yanchor: index ? "bottom" : "top", xshift: -4, yshift: index ? 6 : -8, font: {color: looks[index][0], size: 14}, ...behind}));
    const note = label(low, found.limit, small ? found.limit_text.split(":")[0] : found.limit_text, {xanchor: "left", yanchor: "bottom", xshift: 4, font: {color: colour("muted")}});
    const xaxis = logAxis(low, high, 0, "tile edge T");
    Object.assign(xaxis, {tickvals: edges, ticktext: edges.map(edge => found.points.find(point => point.x === edge).x_text)});
    say("law", found.finding);
    table("numbers-law", ["kernel", "T", "FLOP/byte at L1", "law", "from the law"], found.points.map(p => [p.name, p.x_text, p.y_text, p.law, p.error_text]));
    return Plotly.react(chart, [limit, ...curves, dots], layout(420, margin, {xaxis, yaxis: logAxis(bottom, top, 0, small ? "" : "FLOP/byte at L1"), annotations: [...names, ...ends, note]}), CONFIG);
  }

  function strip(name, order, low, high, space, traces, notes, title) {
    const chart = el(`chart-${name}`), small = narrow(), longest = Math.max(...order.map(text => short(text).length));
    const margin = {l: Math.ceil(longest * (small ? 6.3 : 7.4)) + 12, r: 4, t: 8, b: 46}, width = chart.clientWidth - margin.l - margin.r;
    const decades = Math.log10(high / low), extra = room(decades, width, space), at = high * 10 ** (8 * (decades + extra) / width);
    const yaxis = {
      range: [order.length - 0.4, -0.6], tickmode: "array", tickvals: order.map((_, index) => index), ticktext: order.map(text => short(text).replace(/&/g, "&amp;").replace(/</g, "&lt;")),
      gridcolor: colour("grid"), zeroline: false, fixedrange: true,
    };
    const annotations = notes.map((text, index) => ({x: Math.log10(at), y: index, text, showarrow: false, xanchor: "left", bgcolor: colour("paper"), borderpad: 1}));
    return Plotly.react(chart, traces, layout(order.length * 26 + margin.t + margin.b, margin, {xaxis: logAxis(low, high, extra, title), yaxis, annotations}), CONFIG);
  }

  function transition() {
    const shown = view.transition ? view.transition.order.map(name => rows().find(row => row.name === name)).filter(Boolean) : [];
    el("figure-transition").hidden = shown.length === 0;
    if (!shown.length) return;
    const values = shown.flatMap(row => [...Object.values(row.bounds).map(bound => bound.value), ...row.timed ? [row.y] : []]).map(value => value / 1e12);
    const pipes = [...new Set(shown.flatMap(row => Object.keys(row.bounds).filter(level => !(level in LEVELS))))];
    const looks = [...Object.keys(LEVELS).map(level => [level, LEVELS[level][0], LEVELS[level][1], level]), ...pipes.map(pipe => [pipe, "star-diamond", pipe.toUpperCase(), "pipe"])];
    const traces = looks.map(([level, symbol, name, tone]) => {
      const some = shown.map((row, index) => [row, index]).filter(([row]) => row.bounds[level]);
      const strong = ([row]) => (level in LEVELS ? binding(row) : row.bound_by) === level;
      return points(some.map(([row]) => row.bounds[level].value / 1e12), some.map(([, index]) => index), some.map(([row]) => `<b>${row.label}</b>${row.edge ? `, T = ${row.edge_text}` : ""}<br>${name} allows ${row.bounds[level].text}`),
        {symbol: some.map(each => strong(each) ? symbol : `${symbol}-open`), size: some.map(each => strong(each) ? 11 : 8), color: hue(tone), line: {width: 1.5, color: hue(tone)}});
    });
    const timed = shown.map((row, index) => [row, index]).filter(([row]) => row.timed);
    traces.push(points(timed.map(([row]) => row.y / 1e12), timed.map(([, index]) => index), timed.map(([row]) => `<b>${row.label}</b><br>measured ${row.y_text}`), {symbol: "line-ns-open", size: 15, color: colour("ink"), line: {width: 2.5, color: colour("ink")}}));
    const small = narrow(), size = row => row.edge ? `T ${row.edge_text}` : "no tile";
    say("transition", view.transition.finding);
    table("numbers-transition", ["kernel", "T", "bound by", ...looks.map(([, , name]) => `${name} allows`), "measured"],
      shown.map(row => [row.name, row.edge_text, row.bound_text, ...looks.map(([level]) => row.bounds[level] && row.bounds[level].text), row.timed ? row.y_text : ""]));
    return strip("transition", shown.map(row => row.name), Math.min(...values) / 1.5, Math.max(...values) * 1.5, small ? 102 : 204, traces,
      shown.map(row => small ? `${size(row)}: ${row.bound_text.replace(" memory", "").replace("data pipe", "")}` : `${size(row)}: ${row.bound_text} binds`), "TFLOP/s that the level allows");
  }

  function banks() {
    const found = view.banks, shown = found ? found.points : [];
    el("figure-banks").hidden = shown.length === 0;
    if (!shown.length) return;
    const values = shown.flatMap(point => [point.x, ...point.law ? [point.law] : []]), tone = hue("shared"), muted = colour("ink");
    const ruled = shown.map((point, index) => [point, index]).filter(([point]) => point.law);
    const traces = [
      points(ruled.map(([point]) => point.law), ruled.map(([, index]) => index), ruled.map(([point]) => point.hover), {symbol: "line-ns-open", size: 15, color: muted, line: {width: 2.5, color: muted}}),
      points(shown.map(point => point.x), shown.map((_, index) => index), shown.map(point => point.hover), {symbol: "triangle-up", size: 11, color: tone, line: {width: 0.8, color: colour("paper")}}),
    ];
    say("banks", found.finding);
    table("numbers-banks", ["kernel", "wavefronts a request", "shared, FLOP/byte", "law"], shown.map(point => [point.name, point.per_text, point.x_text, point.law_text]));
    return strip("banks", shown.map(point => point.name), Math.min(...values) / 1.5, Math.max(...values) * 1.5, narrow() ? 96 : 184, traces,
      shown.map(point => narrow() ? `${point.per_text} a request` : `${point.per_text} wavefronts a request`), "FLOP per byte at shared memory");
  }

  // ---- the controls

  function options(id, pairs, keep) {
    const select = el(id), had = select.value;
    select.replaceChildren(...pairs.map(([value, text]) => Object.assign(document.createElement("option"), {value, textContent: text})));
    if (keep && pairs.some(([value]) => value === had)) select.value = had;
    select.disabled = pairs.length < 2;
    select.closest("p").hidden = pairs.length < 2 && id === "precision";
  }

  function choose(keep) {
    const set = sets[Number(el("device").value) || 0];
    options("shape", set.shapes.map(each => [each.shape, each.shape.replaceAll("x", " × ")]), keep);
    view = set.shapes.find(each => each.shape === el("shape").value);
    const precisions = [...new Map(view.rows.map(row => [row.precision, row.precision_text]))];
    options("precision", precisions.length > 1 ? [["", "all"], ...precisions] : precisions.map(([, text]) => ["", text]), true);
    const missing = [];
    for (const radio of form.elements.place) {
      radio.disabled = radio.value !== "nested" && !view.rows.some(row => row.levels[radio.value]);
      if (radio.disabled) missing.push(view.findings[radio.value]);
      if (radio.disabled && radio.checked) form.elements.place.value = "nested";
    }
    place = form.elements.place.value;
    el("absent").textContent = missing.join(" ");
    el("absent").hidden = missing.length === 0;
    for (const kind of Object.keys(KINDS)) form.querySelector(`[data-kind=${kind}]`).hidden = !view.rows.some(row => row.kind === kind);
  }

  // The first figure is painted before the others are drawn.
  const pause = () => new Promise(done => setTimeout(done));
  async function all() {
    await library;
    await roofline(false);
    for (const draw of [law, transition, banks]) {
      await pause();
      await draw();
    }
  }

  form.addEventListener("submit", event => event.preventDefault());
  form.addEventListener("change", async event => {
    await library;
    const before = place;
    if (event.target.name === "place") {
      place = event.target.value;
      return roofline(before !== "nested" && place !== "nested");
    }
    if (event.target.id === "device" || event.target.id === "shape") choose(true);
    return all();
  });
  el("explore").hidden = false;
  options("device", sets.map((set, index) => [String(index), set.device]), false);
  choose(false);
  whenChanged(all);
  all().then(() => { document.documentElement.dataset.ready = "true"; });
})();
