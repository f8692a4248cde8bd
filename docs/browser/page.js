// docs/browser/page.js: the page's editor, prompt and figures. The interpreter runs in worker.js, so
// that the page stays alive; to stop it is to end that worker and begin another one.
'use strict';

const SCRIPT = 'two_moons.lua';
const INCOMPLETE = 1;
const KEPT_LINES = 200;  // of the history
const KEPT_OUTPUT = 2000;  // pieces of the log

const element = (id) => document.getElementById(id);
const code = element('code');
const line = element('line');
const log = element('log');

// --- the state of the interpreter ----------------------------------------------------------------

let compiled = null;  // a promise of the WebAssembly module
let worker = null;
let version = '';
let isReady = false;
let busy = null;  // the request that runs
let lastId = 0;

function showState(state, text) {
  element('state').dataset.state = state;
  element('state').textContent = text;
  element('run').disabled = state !== 'ready';
  element('stop').disabled = state !== 'busy';
}

// --- the log -------------------------------------------------------------------------------------

function write(kind, text) {
  const atEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 20;
  let last = log.lastElementChild;
  // Lines of one stream are one piece, as long as nothing comes between.
  if (kind === 'typed' || kind === 'note' || !last || last.className !== kind ||
      last.textContent.length > 5000) {
    last = document.createElement('div');
    last.className = kind;
    log.append(last);
    while (log.childElementCount > KEPT_OUTPUT) log.firstElementChild.remove();
  }
  last.textContent = returned(last.textContent + text);
  if (atEnd || kind === 'typed') log.scrollTop = log.scrollHeight;
}

// A carriage return begins the line anew, as on a terminal.
function returned(text) {
  return text.includes('\r') ? text.replace(/\r+\n/g, '\n').replace(/[^\n]*\r(?=[^\n])/g, '') : text;
}

// --- figures -------------------------------------------------------------------------------------

const pictures = new Map();

function showPicture({ name, type, bytes }) {
  element('none').hidden = true;
  let shown = pictures.get(name);
  if (!shown) {
    const figure = document.createElement('figure');
    const image = document.createElement('img');
    const caption = document.createElement('figcaption');
    const link = document.createElement('a');
    image.alt = 'Figure ' + name;
    link.textContent = 'Save';
    link.download = name;
    caption.append(name, link);
    figure.append(image, caption);
    element('pictures').append(figure);
    shown = { image, link, url: '' };
    pictures.set(name, shown);
  }
  const before = shown.url;
  shown.url = URL.createObjectURL(new Blob([bytes], { type }));
  shown.image.onload = () => { if (before) URL.revokeObjectURL(before); };
  shown.image.src = shown.link.href = shown.url;
}

// --- the worker ----------------------------------------------------------------------------------

async function compile() {
  const response = await fetch('moonlet.wasm');
  if (!response.ok) throw new Error('moonlet.wasm: ' + response.status);
  return WebAssembly.compile(await response.arrayBuffer());
}

function receive({ data }) {
  if (data.kind === 'ready') {
    version = data.version;
    isReady = true;
    showState('ready', 'Moonlet ' + version);
  } else if (data.kind === 'output') {
    write(data.stream === 'error' ? 'error' : 'out', data.text);
  } else if (data.kind === 'picture') {
    showPicture(data);
  } else if (data.kind === 'done' && busy && busy.id === data.id) {
    const { resolve, kind } = busy;
    busy = null;
    const time = kind === 'run' ? `, ${(data.milliseconds / 1000).toFixed(1)} s` : '';
    showState('ready', 'Moonlet ' + version + time);
    resolve(data);
  } else if (data.kind === 'ended') {
    restart(data.reason ? `the interpreter has failed: ${data.reason}` : 'the script has left');
  }
}

async function start() {
  isReady = false;
  showState('loading', 'Loading …');
  try {
    compiled = compiled || compile();
    const module = await compiled;
    worker = new Worker('worker.js');
    worker.onmessage = receive;
    worker.onerror = (event) => showState('failed', event.message || 'the worker has failed');
    worker.postMessage({ kind: 'open', module });
  } catch (error) {
    compiled = null;
    showState('failed', String(error.message || error));
  }
}

// All that was computed goes with the worker.
function restart(why) {
  worker.terminate();
  const request = busy;
  busy = null;
  write('note', `(${why}; a new interpreter has begun, without the variables of the last)\n`);
  if (request) request.resolve(null);
  start();
}

function stop() {
  if (busy) restart('stopped');
}

function ask(kind, text, name) {
  if (!isReady || busy) return Promise.resolve(null);
  return new Promise((resolve) => {
    busy = { id: ++lastId, kind, resolve };
    if (kind !== 'complete') showState('busy', 'Running …');
    worker.postMessage({ kind, id: busy.id, text, name });
  });
}

// --- the editor ----------------------------------------------------------------------------------

const WORDS = new Set(('and break do else elseif end false for function goto if in local nil not or ' +
  'repeat return then true until while').split(' '));
const TOKENS = new RegExp([
  /(?<comment>--\[(?<level>=*)\[[^]*?(?:\]\k<level>\]|$)|--[^\n]*)/,
  /(?<string>\[(?<depth>=*)\[[^]*?(?:\]\k<depth>\]|$)|"(?:\\[^]|[^"\\\n])*"?|'(?:\\[^]|[^'\\\n])*'?)/,
  /(?<number>\b\d[\w.]*(?:(?<=[eEpP])[+-]?\d+)?)/,
  /(?<word>[A-Za-z_]\w*)/,
].map((part) => part.source).join('|'), 'g');

function colour() {
  const text = code.value;
  const out = document.createDocumentFragment();
  let at = 0;
  for (const match of text.matchAll(TOKENS)) {
    const groups = match.groups;
    const kind = groups.comment ? 'comment' : groups.string ? 'string' : groups.number ? 'number'
      : WORDS.has(groups.word) ? 'keyword' : null;
    if (!kind) continue;
    const span = document.createElement('span');
    span.className = kind;
    span.textContent = match[0];
    out.append(text.slice(at, match.index), span);
    at = match.index + match[0].length;
  }
  out.append(text.slice(at) + '\n');
  element('coloured').replaceChildren(out);
}

function follow() {
  element('coloured').scrollTop = code.scrollTop;
  element('coloured').scrollLeft = code.scrollLeft;
}

async function runScript() {
  if (!isReady || busy) return;
  write('note', `(${SCRIPT})\n`);
  await ask('run', code.value, SCRIPT);
}

let leaves = false;  // Escape was pressed: Tab leaves the field

function editKey(event) {
  if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    runScript();
  } else if (event.key === 'Tab' && !event.shiftKey && !leaves) {
    event.preventDefault();
    document.execCommand('insertText', false, '  ');
  } else if (event.key === 'Enter') {
    // The next line begins as this one.
    const before = code.value.slice(0, code.selectionStart);
    const indent = before.slice(before.lastIndexOf('\n') + 1).match(/^ */)[0];
    event.preventDefault();
    document.execCommand('insertText', false, '\n' + indent);
  }
  leaves = event.key === 'Escape';
}

// --- the prompt ----------------------------------------------------------------------------------

let past = [];
try {
  past = JSON.parse(localStorage.getItem('moonlet.history')) || [];
} catch { /* the browser keeps nothing for this page */ }
let recalled = past.length;
let draft = '';

function remember(text) {
  if (text.trim() !== '' && past[past.length - 1] !== text) past.push(text);
  past = past.slice(-KEPT_LINES);
  recalled = past.length;
  try {
    localStorage.setItem('moonlet.history', JSON.stringify(past));
  } catch { /* as above */ }
}

function setLine(text, cursor) {
  line.value = text;
  line.setSelectionRange(cursor ?? text.length, cursor ?? text.length);
  grow();
}

function grow() {
  line.style.height = 'auto';
  line.style.height = line.scrollHeight + 'px';
  element('mark').textContent = line.value.includes('\n') ? '>>' : '>';
}

async function submit() {
  const text = line.value;
  if (text.trim() === '' || !isReady || busy) return;
  write('typed', text + '\n');
  const shown = log.lastElementChild;
  setLine('');
  const reply = await ask('submit', text);
  if (reply && reply.outcome === INCOMPLETE) {
    shown.remove();
    setLine(text + '\n' + line.value);
  } else {
    remember(text);
  }
  line.focus();
}

function recall(step) {
  const at = recalled + step;
  if (at < 0 || at > past.length) return;
  if (recalled === past.length) draft = line.value;
  recalled = at;
  setLine(at === past.length ? draft : past[at]);
}

// The letters that all names begin with; all names, where these are typed already.
async function completeName() {
  const cursor = line.selectionStart;
  const before = line.value.slice(0, cursor);
  const reply = await ask('complete', before);
  if (!reply || reply.names.length === 0 || line.value.slice(0, cursor) !== before) return;
  // Positions are those of bytes.
  const bytes = new TextEncoder().encode(before);
  const head = new TextDecoder().decode(bytes.slice(0, reply.start));
  let common = reply.names[0];
  for (const name of reply.names)
    while (!name.startsWith(common)) common = common.slice(0, -1);
  if (head + common !== before) {
    setLine(head + common + line.value.slice(cursor), (head + common).length);
  } else if (reply.names.length > 1) {
    write('note', reply.names.join('  ') + '\n');
  }
}

function lineKey(event) {
  const cursor = line.selectionStart;
  const isFirst = !line.value.slice(0, cursor).includes('\n');
  const isLast = !line.value.slice(cursor).includes('\n');
  const isPlain = !event.shiftKey && !event.ctrlKey && !event.altKey && !event.metaKey;
  const act = event.key === 'Enter' && isPlain ? submit
    : event.key === 'ArrowUp' && isPlain && isFirst ? () => recall(-1)
      : event.key === 'ArrowDown' && isPlain && isLast ? () => recall(1)
        : event.key === 'Tab' && isPlain && !leaves && line.value !== '' ? completeName
          : event.key === 'l' && event.ctrlKey ? () => log.replaceChildren()
            : null;
  if (act) {
    event.preventDefault();
    act();
  }
  leaves = event.key === 'Escape';
}

// Ctrl+C stops what runs, or drops what was typed; where text is selected it copies.
function interruptKey(event) {
  if (event.key !== 'c' || !event.ctrlKey || event.shiftKey) return;
  const field = document.activeElement;
  const isSelected = !document.getSelection().isCollapsed ||
    (field === line || field === code) && field.selectionStart !== field.selectionEnd;
  if (isSelected) return;
  if (busy) {
    event.preventDefault();
    stop();
  } else if (field === line && line.value !== '') {
    event.preventDefault();
    setLine('');
  }
}

// --- the beginning -------------------------------------------------------------------------------

code.addEventListener('input', colour);
code.addEventListener('scroll', follow);
code.addEventListener('keydown', editKey);
line.addEventListener('input', grow);
line.addEventListener('keydown', lineKey);
document.addEventListener('keydown', interruptKey);
element('run').addEventListener('click', runScript);
element('stop').addEventListener('click', stop);

fetch(SCRIPT).then((response) => response.text()).then((text) => {
  code.value = text;
  colour();
});
start();
