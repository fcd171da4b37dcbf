"use strict";
// The charts of the experiments: each panel is a plot of its own, drawn from the page's data.
(() => {
  const {CONFIG, colour, narrow, layout, whenChanged} = parts;
  const charts = JSON.parse(document.getElementById("experiment-data").textContent);
  const plain = text => text.replace(/&/g, "&amp;").replace(/</g, "&lt;");

  const axis = from => ({
    type: from.log ? "log" : "linear", range: from.log ? [Math.log10(from.low), Math.log10(from.high)] : [from.low, from.high],
    tickmode: "array", tickvals: from.values, ticktext: from.texts.map(plain), title: {text: from.title, standoff: 8},
    gridcolor: colour("grid"), linecolor: colour("muted"), zeroline: false, fixedrange: narrow(),
  });

  function trace(points) {
    const tone = colour(points.tone), stroke = points.symbol.startsWith("line");
    return {
      type: "scatter", mode: "markers", x: points.x, y: points.y, hovertext: points.hover, hoverinfo: "text", cliponaxis: false,
      marker: {
        opacity: 1, symbol: points.filled && !stroke ? points.symbol : `${points.symbol}-open`, color: tone,
        size: points.size * (stroke ? 1.2 : 1), line: {color: tone, width: stroke ? 2.5 : points.filled ? 0 : 1.8},
      },
    };
  }

  function draw(panel, place, chart) {
    const rows = !panel.y.log, margin = {l: rows && panel.y.texts.some(Boolean) ? chart.left : 58, r: panel.notes.length ? chart.right : 8, t: panel.title ? 34 : 10, b: 46};
    const lines = panel.lines.map(line => ({
      type: "scatter", mode: "lines", x: line.x, y: line.y, hoverinfo: "skip",
      line: {color: colour(line.tone), dash: line.dash, width: line.width * 1.2},
    }));
    const notes = panel.notes.map(([y, text, tone]) => ({
      xref: "paper", x: 1, y, text: plain(text), showarrow: false, xanchor: "left", xshift: 6, font: {color: colour(tone), size: 12},
    }));
    return Plotly.react(place, [...lines, ...panel.points.map(trace)], layout(chart.height, margin, {
      xaxis: axis(panel.x), yaxis: axis(panel.y), annotations: notes,
      title: {text: panel.title, font: {size: 14}, x: 0, xref: "paper", y: 0.98, yanchor: "top"},
    }), CONFIG);
  }

  const pause = () => new Promise(done => setTimeout(done));
  async function all() {
    await library;
    for (const [index, chart] of charts.entries()) {
      for (const [number, panel] of chart.panels.entries()) {
        await pause();
        await draw(panel, document.getElementById(`chart-experiment-${index}-${number}`), chart);
      }
    }
  }

  for (const panels of document.querySelectorAll(".panels")) panels.hidden = false;
  whenChanged(all);
  all().then(() => { document.documentElement.dataset.experiments = "true"; });
})();
