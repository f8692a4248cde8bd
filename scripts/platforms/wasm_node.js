// scripts/platforms/wasm_node.js: runs a program of WebAssembly under node, with this machine's
// files, its environment and its standard streams.
// usage: node wasm_node.js PROGRAM.js [ARGUMENT...]
'use strict';
const fs = require('fs');
const path = require('path');

const file = path.resolve(process.argv[2]);
const programArguments = process.argv.slice(3);
// emscripten would take it for a browser's, and ask it for files.
globalThis.fetch = undefined;
process.argv.splice(1, 1);

// Folders of the root are mounted one by one, as the root itself is emscripten's.
function mountFolders(module) {
  const { FS } = module;
  for (const name of fs.readdirSync('/')) {
    const folder = '/' + name;
    if (['/dev', '/proc', '/sys'].includes(folder)) continue;
    try {
      if (!fs.statSync(folder).isDirectory()) continue;
      if (!FS.analyzePath(folder).exists) FS.mkdir(folder);
      FS.mount(module.NODEFS, { root: folder }, folder);
    } catch (error) {
      if (error.code !== 'EACCES' && error.code !== 'ENOENT') throw error;
    }
  }
  FS.chdir(process.cwd());
}

const create = require(file);
if (typeof create === 'function') {
  create({
    thisProgram: process.argv[1],
    noInitialRun: true,
    preRun: [(module) => {
      mountFolders(module);
      Object.assign(module.ENV, process.env);
    }],
    quit: (code) => { process.exitCode = code; },
  }).then((module) => {
    module.callMain(programArguments);
  }).catch((error) => {
    console.error(error);
    process.exitCode = 70;
  });
}
