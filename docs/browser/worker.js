// docs/browser/worker.js: runs the interpreter beside the page, which stays alive meanwhile. Messages
// to it: { kind: "open", module }, { kind: "submit" | "run" | "complete", id, text, name }. From it:
// "ready", "output", "picture", "done" and "ended", after which it does nothing more.
'use strict';
/* global importScripts, createMoonlet */
importScripts('moonlet.js');

const SUCCEEDED = 0;
const BETWEEN_POSTS = 40;  // milliseconds

let moonlet = null;

// What is written to a stream, posted line by line, and many at once when they come fast.
class Stream {
  constructor(name) {
    this.name = name;
    this.bytes = [];
    this.text = '';
    this.posted = 0;
    this.decoder = new TextDecoder();
  }

  put(byte) {
    if (byte === null) return;
    this.bytes.push(byte);
    if (byte === 10 || this.bytes.length >= 4096) this.gather();
  }

  gather() {
    const bytes = new Uint8Array(this.bytes);
    this.bytes = [];
    this.text += this.decoder.decode(bytes, { stream: true });
    if (performance.now() - this.posted > BETWEEN_POSTS) this.post();
  }

  post() {
    this.posted = performance.now();
    if (this.text !== '') postMessage({ kind: 'output', stream: this.name, text: this.text });
    this.text = '';
  }

  flush() {
    this.gather();
    this.post();
  }
}

const streams = { out: new Stream('out'), error: new Stream('error') };

function flush() {
  streams.out.flush();
  streams.error.flush();
}

// Shows each picture that is written, as soon as its file has its name.
function watchPictures({ FS }) {
  const show = (path) => {
    const type = { svg: 'image/svg+xml', png: 'image/png' }[path.split('.').pop().toLowerCase()];
    if (!type) return;
    flush();
    const name = path.split('/').pop();
    postMessage({ kind: 'picture', name, type, bytes: FS.readFile(path) });
  };
  const { close, rename } = FS;
  FS.close = (stream) => {
    const isWritten = (stream.flags & 3) !== 0;
    close(stream);
    if (isWritten && stream.path && FS.analyzePath(stream.path).exists) show(stream.path);
  };
  FS.rename = (from, to) => {
    rename(from, to);
    show(to);
  };
}

async function open(module) {
  moonlet = await createMoonlet({
    noInitialRun: true,
    preRun: [(made) => {
      made.FS.init(() => null, (byte) => streams.out.put(byte), (byte) => streams.error.put(byte));
      made.FS.mkdirTree('/home/moonlet');
      made.FS.chdir('/home/moonlet');
    }],
    instantiateWasm: (imports, receive) => {
      WebAssembly.instantiate(module, imports).then((instance) => receive(instance, module));
      return {};
    },
  });
  watchPictures(moonlet);
  if (moonlet.ccall('moonlet_page_open', 'number') === 0) throw new Error('it cannot be opened');
  flush();
  postMessage({ kind: 'ready', version: moonlet.ccall('moonlet_page_version', 'string') });
}

function complete(text) {
  const [start, ...names] =
    moonlet.ccall('moonlet_page_complete', 'string', ['string'], [text]).split('\n');
  return { start: Number(start), names };
}

function answer({ kind, id, text, name }) {
  const begun = performance.now();
  const reply = { kind: 'done', id, outcome: SUCCEEDED };
  if (kind === 'complete') {
    Object.assign(reply, complete(text));
  } else if (kind === 'submit') {
    reply.outcome = moonlet.ccall('moonlet_page_submit', 'number', ['string'], [text]);
  } else {
    reply.outcome =
      moonlet.ccall('moonlet_page_run', 'number', ['string', 'string'], [text, name]);
  }
  flush();
  postMessage({ ...reply, milliseconds: performance.now() - begun });
}

// A script has left (os.exit), or the interpreter cannot go on.
function end(error) {
  flush();
  const isExit = error && error.name === 'ExitStatus';
  postMessage({ kind: 'ended', reason: isExit ? null : String((error && error.message) || error) });
  close();
}

onmessage = async ({ data }) => {
  try {
    if (data.kind === 'open') await open(data.module);
    else answer(data);
  } catch (error) {
    end(error);
  }
};
