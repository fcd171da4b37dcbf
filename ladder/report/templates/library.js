"use strict";
// The library that draws the charts stands in the page packed. The browser unpacks it, and it runs as if it stood here.
const library = (async () => {
  const packed = Uint8Array.from(atob(document.getElementById("library").textContent), letter => letter.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const script = document.createElement("script");
  script.textContent = await new Response(unpacked).text();
  document.head.append(script);
})();
library.catch(() => { for (const note of document.querySelectorAll(".undrawn")) note.hidden = false; });
