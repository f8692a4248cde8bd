// tests/browser/server.js: gives the page in the browser, and what was built for it, to a browser on
// this machine.
// usage: node server.js ROOT BUILD [PORT]
'use strict';
const fs = require('fs');
const http = require('http');
const path = require('path');

const TYPES = {
  '.html': 'text/html; charset=utf-8', '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8', '.lua': 'text/plain; charset=utf-8',
  '.wasm': 'application/wasm',
};
const BUILT = ['moonlet.js', 'moonlet.wasm'];

// The path of a file of the page.
function find(root, build, name) {
  return path.join(BUILT.includes(name) ? build : path.join(root, 'docs/browser'), name);
}

// The paths of all files of the page.
function files(root, build) {
  return [...fs.readdirSync(path.join(root, 'docs/browser')), ...BUILT]
    .map((name) => find(root, build, name));
}

// A promise of a server that listens.
function serve(root, build, port = 0) {
  const server = http.createServer((request, response) => {
    const name = path.basename(new URL(request.url, 'http://localhost').pathname) || 'index.html';
    const file = find(root, build, name);
    fs.readFile(file, (error, bytes) => {
      if (error) {
        response.writeHead(404).end(name + ' is not there\n');
        return;
      }
      response.writeHead(200, { 'Content-Type': TYPES[path.extname(name)] || 'text/plain' });
      response.end(bytes);
    });
  });
  return new Promise((resolve) => server.listen(port, '127.0.0.1', () => resolve(server)));
}

module.exports = { serve, files };

if (require.main === module) {
  const [root, build, port] = process.argv.slice(2);
  serve(root, build, Number(port || 8000)).then((server) => {
    console.log(`http://127.0.0.1:${server.address().port}/`);
  });
}
