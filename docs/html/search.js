// docs/html/search.js: the search of the reference pages, over the list that index.js holds. It
// needs no server: the pages work from the disk.
"use strict";

const input = document.getElementById("search");
const found = document.getElementById("found");
const most = 30;

// How well an entry answers: lower is better, null is not at all.
function rank(name, text, words) {
  const lower = name.toLowerCase();
  const last = lower.split(/[.:]+/).pop();
  let sum = 0;
  for (const word of words) {
    if (last === word || lower === word) sum += 0;
    else if (last.startsWith(word)) sum += 1;
    else if (lower.includes(word)) sum += 2;
    else if (text.toLowerCase().includes(word)) sum += 4;
    else return null;
  }
  return sum;
}

function search(query) {
  const words = query.toLowerCase().replace(/^(ml|x)[.:]/, "").split(/\s+/).filter(Boolean);
  if (words.length === 0) return [];
  const out = [];
  for (const entry of entries) {
    const value = rank(entry[0], entry[3], words);
    if (value !== null) out.push([value, entry[0].length, entry]);
  }
  out.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  return out.slice(0, most).map((item) => item[2]);
}

function element(name, text) {
  const out = document.createElement(name);
  out.textContent = text;
  return out;
}

function show() {
  const results = search(input.value);
  found.replaceChildren();
  for (const [name, kind, address, text] of results) {
    const link = element("a", "");
    link.href = address;
    link.append(element("b", name), element("i", kind), element("span", text));
    const item = document.createElement("li");
    item.append(link);
    found.append(item);
  }
  if (results.length === 0 && input.value.trim() !== "") found.append(element("li", "Nothing found."));
  found.hidden = input.value.trim() === "";
}

// The links of the results, and moving between them.
function move(step) {
  const links = [...found.querySelectorAll("a")];
  if (links.length === 0) return;
  const at = links.indexOf(document.activeElement) + step;
  if (at < 0) input.focus();
  else links[Math.min(at, links.length - 1)].focus();
}

input.addEventListener("input", show);
input.addEventListener("focus", show);
document.addEventListener("click", (event) => {
  if (!event.target.closest(".search")) found.hidden = true;
});
document.addEventListener("keydown", (event) => {
  const inside = document.activeElement.closest(".search") !== null;
  if (event.key === "/" && !inside) {
    event.preventDefault();
    input.focus();
    input.select();
  } else if (event.key === "Escape") {
    found.hidden = true;
    input.blur();
  } else if (inside && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
    event.preventDefault();
    move(event.key === "ArrowDown" ? 1 : -1);
  } else if (event.key === "Enter" && document.activeElement === input) {
    const first = found.querySelector("a");
    if (first) first.click();
  }
});
found.addEventListener("click", () => { found.hidden = true; });
