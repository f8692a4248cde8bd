-- stdlib/cuda/memory_page.lua: one HTML page, with nothing from elsewhere, that draws a snapshot of
-- the memory of CUDA devices: segments with their blocks, and how it came to them.

local HEAD = [==[
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>CUDA memory</title>
<style>
body { font: 14px sans-serif; margin: 2em; max-width: 80em; color: #222; background: #fff; }
.segment { display: flex; align-items: center; margin: 2px 0; }
.segment span { width: 19em; font: 12px monospace; }
.bar { display: flex; height: 16px; flex: none; background: #eee; outline: 1px solid #999; }
.block { height: 100%; box-sizing: border-box; border-right: 1px solid #fff; }
.active_allocated { background: #3a76b8; } .active_pending_free { background: #d99a2b; }
.inactive { background: #ddd; } #tip { white-space: pre; font: 12px monospace; min-height: 7em; }
svg { width: 100%; height: 260px; background: #f6f6f6; } td { padding-right: 2em; }
</style></head><body>
<h1>CUDA memory</h1>
<p><b class="block active_allocated">&nbsp;&nbsp;</b> in use
<b class="block active_pending_free">&nbsp;&nbsp;</b> freed, a stream may still use it
<b class="block inactive">&nbsp;&nbsp;</b> free. Point at a block to see what made it.</p>
<div id="tip"></div><div id="devices"></div>
<script type="application/json" id="snapshot">
]==]

local TAIL = [==[

</script><script>
"use strict";
const snapshot = JSON.parse(document.getElementById("snapshot").textContent);
const tip = document.getElementById("tip"), devices = document.getElementById("devices");
const units = ["B", "KiB", "MiB", "GiB", "TiB"];
function size(bytes) {
  let unit = 0;
  while (bytes >= 1024 && unit < 4) { bytes /= 1024; ++unit; }
  return (unit ? bytes.toFixed(1) : bytes) + " " + units[unit];
}
function add(parent, tag, text, kind) {
  const made = document.createElement(tag);
  if (text) made.textContent = text;
  if (kind) made.className = kind;
  return parent.appendChild(made);
}
function position(frames) {
  return (frames || []).map(f => "  " + f.filename + ":" + f.line + " " + f.name).join("\n");
}
function segments(parent, list) {
  const most = Math.max(1, ...list.map(s => s.total_size));
  for (const s of list) {
    const row = add(parent, "div", "", "segment");
    add(row, "span", s.address.toString(16) + " " + s.segment_type + " " + size(s.total_size));
    const bar = add(row, "div", "", "bar");
    bar.style.width = Math.max(0.5, 55 * s.total_size / most) + "em";
    for (const b of s.blocks) {
      const block = add(bar, "div", "", "block " + b.state);
      block.style.width = 100 * b.size / s.total_size + "%";
      block.onmouseover = () => {
        tip.textContent = size(b.size) + " (" + b.size + " bytes, " + b.requested_size +
          " asked for), " + b.state.replace(/_/g, " ") + "\n" + position(b.frames);
      };
    }
  }
}
function line(svg, points, most, color) {
  const shape = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
  const last = Math.max(1, points.length - 1);
  shape.setAttribute("points", points.map((p, i) =>
    (1000 * i / last).toFixed(2) + "," + (250 - 240 * p / most).toFixed(2)).join(" "));
  shape.setAttribute("fill", "none");
  shape.setAttribute("stroke", color);
  shape.setAttribute("vector-effect", "non-scaling-stroke");
  svg.appendChild(shape);
}
function timeline(parent, trace, list) {
  const change = {
    alloc: [1, 0], free_requested: [-1, 0], segment_alloc: [0, 1], segment_free: [0, -1],
  };
  const now = [0, 0], used = [], held = [];
  for (const e of trace) {
    const c = change[e.action] || [0, 0];
    now[0] += c[0] * e.size; now[1] += c[1] * e.size;
    used.push(now[0]); held.push(now[1]);
  }
  // What was there before the trace began: the difference to what there is at its end.
  const total = key => list.reduce((sum, s) => sum + s[key], 0);
  const before = [total("allocated_size") - now[0], total("total_size") - now[1]];
  const u = used.map(v => v + before[0]), h = held.map(v => v + before[1]);
  const most = h.reduce((a, b) => Math.max(a, b), 1);
  add(parent, "h3", trace.length + " events; at most " + size(most) + " taken from the device");
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 1000 260");
  svg.setAttribute("preserveAspectRatio", "none");
  parent.appendChild(svg);
  line(svg, h, most, "#999");
  line(svg, u, most, "#3a76b8");
  svg.onmousemove = event => {
    const box = svg.getBoundingClientRect();
    const at = Math.round((event.clientX - box.left) / box.width * (trace.length - 1));
    const e = trace[Math.min(trace.length - 1, Math.max(0, at))];
    tip.textContent = "event " + (at + 1) + ": " + e.action + " of " + size(e.size) + "; " +
      size(u[at]) + " in use, " + size(h[at]) + " taken\n" + position(e.frames);
  };
}
function largest(parent, list) {
  const blocks = list.flatMap(s => s.blocks).filter(b => b.state === "active_allocated");
  blocks.sort((a, b) => b.size - a.size);
  if (blocks.length) add(parent, "h3", "largest blocks");
  const table = add(parent, "table");
  for (const b of blocks.slice(0, 20)) {
    const row = add(table, "tr"), f = (b.frames || [])[0];
    add(row, "td", size(b.size));
    add(row, "td", f ? f.filename + ":" + f.line : "");
  }
}
const count = Math.max(snapshot.device_traces.length,
                       ...snapshot.segments.map(s => s.device + 1));
for (let device = 0; device < count; ++device) {
  const list = snapshot.segments.filter(s => s.device === device);
  const trace = snapshot.device_traces[device] || [];
  if (!list.length && !trace.length) continue;
  add(devices, "h2", "cuda:" + device);
  segments(devices, list);
  largest(devices, list);
  if (trace.length) timeline(devices, trace, list);
}
if (!devices.firstChild) add(devices, "p", "No device has memory of this process.");
</script></body></html>
]==]

-- The page of a snapshot that is written as JSON. What is in a script element ends at "</script",
-- so no "<" is left there.
---@param snapshot string
---@return string
return function(snapshot)
  return HEAD .. snapshot:gsub("<", "\\u003c") .. TAIL
end
