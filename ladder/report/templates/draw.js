"use strict";
// What every figure is made of: colours of the theme, logarithmic axes, marks, and the table behind a figure.
const parts = (() => {
  const CONFIG = {displayModeBar: false, responsive: false, scrollZoom: false, showTips: false};
  const el = id => document.getElementById(id);
  const colour = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const hue = level => colour({dram: "dram", l2: "l2", sm: "sm", shared: "sm", pipe: "fp32"}[level] || "ink");
  const narrow = () => innerWidth < 700;
  const short = text => narrow() && text.length > 16 ? `${text.slice(0, 15)}…` : text;

  // Ticks at powers of ten, written as plain numbers, closer ones where less than two decades show.
  function ticks(low, high) {
    const steps = Math.log10(high / low) > 2 ? [1] : [1, 2, 5], values = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
      for (const step of steps) values.push(step * 10 ** power);
    }
    const kept = values.filter(value => value >= low * 0.999 && value <= high * 1.001);
    return {tickmode: "array", tickvals: kept, ticktext: kept.map(value => String(Number(value.toPrecision(3))))};
  }

  const logAxis = (low, high, room, title) => ({
    type: "log", range: [Math.log10(low), Math.log10(high) + room], ...ticks(low, high), title: {text: title, standoff: 8},
    gridcolor: colour("grid"), linecolor: colour("muted"), zeroline: false, fixedrange: narrow(),
  });

  // Decades to add on the right of `decades` so that labels of `px` have room in a plot of `width`.
  const room = (decades, width, px) => decades * px / (width - px);

  function layout(height, margin, more) {
    const ink = colour("ink");
    return {
      height, margin, paper_bgcolor: colour("paper"), plot_bgcolor: colour("paper"), showlegend: false, hovermode: "closest",
      dragmode: narrow() ? false : "zoom", font: {family: "system-ui, 'DejaVu Sans', sans-serif", size: narrow() ? 11 : 12.5, color: ink},
      hoverlabel: {bgcolor: colour("back"), bordercolor: ink, font: {color: ink, size: 13}, align: "left", namelength: 0}, ...more,
    };
  }

  const label = (x, y, text, more) => ({x: Math.log10(x), y: Math.log10(y), text, showarrow: false, ...more});
  const lines = (x, y, more) => ({type: "scatter", mode: "lines", x, y, hoverinfo: "skip", ...more});
  const points = (x, y, hovertext, marker, more) => ({type: "scatter", mode: "markers", x, y, hovertext, hoverinfo: "text", marker: {opacity: 1, ...marker}, ...more});
  const words = (x, y, text, more) => ({type: "scatter", mode: "text", x, y, text, textposition: "middle right", hoverinfo: "skip", cliponaxis: false, ...more});

  function table(id, head, body) {
    const row = (cells, tag) => {
      const line = document.createElement("tr");
      cells.forEach((text, index) => {
        const cell = document.createElement(tag === "th" || index === 0 ? "th" : "td");
        if (cell.tagName === "TH") cell.scope = tag === "th" ? "col" : "row";
        cell.textContent = text === "" || text === undefined || text === null ? "–" : text;
        line.append(cell);
      });
      return line;
    };
    const top = document.createElement("thead"), main = document.createElement("tbody");
    top.append(row(head, "th"));
    main.append(...body.map(cells => row(cells, "td")));
    el(id).replaceChildren(top, main);
  }

  function say(name, finding) {
    const line = el(`finding-${name}`);
    if (line.textContent !== finding) line.textContent = finding;
  }

  // Draw again in another width, once it has settled, and in another theme; a phone's bars change only the height.
  function whenChanged(all) {
    let waiting, wide = innerWidth;
    addEventListener("resize", () => {
      if (innerWidth === wide) return;
      wide = innerWidth;
      clearTimeout(waiting);
      waiting = setTimeout(all, 150);
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", all);
  }

  return {CONFIG, el, colour, hue, narrow, short, logAxis, room, layout, label, lines, points, words, table, say, whenChanged};
})();
