// tests/browser/page_test.js: a browser opens the page, types at the prompt, trains the two moons in
// the editor, sees the loss fall and figures drawn, and stops a loop. What it looks like is left in
// BUILD/page-light.png and BUILD/page-dark.png.
// usage: node page_test.js ROOT BUILD
'use strict';
const { execFileSync } = require('child_process');
const fs = require('fs');
const path = require('path');
const zlib = require('zlib');
const { Chromium } = require('./chromium.js');
const { serve, files } = require('./server.js');

const SKIPPED = 77;
const MOST_BYTES = 12e6;  // that the page may download, compressed
const [root, build] = process.argv.slice(2).map((name) => path.resolve(name));

function skip(reason) {
  console.log('skipped: ' + reason);
  process.exit(SKIPPED);
}

function find(names) {
  for (const name of names) {
    try {
      return execFileSync('sh', ['-c', `command -v ${name}`]).toString().trim();
    } catch { /* the next one */ }
  }
  return null;
}

function check(condition, what) {
  if (!condition) throw new Error(what);
  console.log('ok: ' + what);
}

const ENTER = ['Enter', { number: 13, text: '\r' }];
const READY = "document.getElementById('state')?.dataset.state === 'ready'";
const BUSY = "document.getElementById('state')?.dataset.state === 'busy'";
const LINE = "document.getElementById('line').value";
const logged = (kind) =>
  `[...document.querySelectorAll('#log .${kind}')].map((each) => each.textContent).join('')`;

// At the prompt, as by keyboard; waits until it has run.
async function enter(browser, text) {
  await browser.evaluate("document.getElementById('line').focus()");
  await browser.type(text);
  await browser.press(...ENTER);
  await browser.until(READY);
}

async function testPrompt(browser) {
  await enter(browser, 'x = ml.arange(6):reshape(2, 3); x:sum():item()');
  await enter(browser, 'x:sum():item()');
  check((await browser.evaluate(logged('out'))).includes('21'), 'an expression shows its value');
  await enter(browser, 'for i = 1, 2 do');
  await browser.until(LINE + " === 'for i = 1, 2 do\\n'", 'the prompt waits for the rest');
  await enter(browser, 'print(i * 111) end');
  check((await browser.evaluate(logged('out'))).includes('111\n222\n'), 'a block of two lines runs');
  await browser.press('ArrowUp', { number: 38 });
  check((await browser.evaluate(LINE)).startsWith('for i = 1, 2 do\nprint'), 'it is recalled whole');
  await browser.press('c', { ctrl: true, number: 67 });
  check(await browser.evaluate(LINE) === '', 'Ctrl+C drops what was typed');
  await browser.type('ml.nn.Conv2');
  await browser.press('Tab', { number: 9 });
  await browser.until(LINE + " === 'ml.nn.Conv2d'", 'Tab completes a name');
  await browser.press('c', { ctrl: true, number: 67 });
  await enter(browser, 'ml.ones(2, 3):matmul(ml.ones(2, 3))');
  check((await browser.evaluate(logged('error'))).includes('matmul: inner sizes differ'),
    'an error says what is wrong');
}

async function testTraining(browser) {
  const script = fs.readFileSync(path.join(root, 'docs/browser/two_moons.lua'), 'utf8');
  check(await browser.evaluate("document.getElementById('code').value") === script,
    'the script is in the editor');
  await browser.evaluate("document.getElementById('code').focus()");
  await browser.press('a', { ctrl: true, number: 65 });
  await browser.press('Delete', { number: 46 });
  await browser.type(script);
  check(await browser.evaluate("document.getElementById('code').value") === script, 'it is typed');
  await browser.press('Enter', { ctrl: true, number: 13 });
  await browser.until(BUSY);
  await browser.until(logged('out') + ".includes('step  25')", 'the first loss is told');
  check(await browser.evaluate(BUSY), 'output comes while the script runs');
  await browser.until(READY, 'the script ends');
  const losses = [...(await browser.evaluate(logged('out'))).matchAll(/loss ([\d.]+)/g)]
    .map((match) => Number(match[1]));
  check(losses.length === 12 && losses[11] < losses[0] / 10, 'the loss falls: ' + losses.join(' '));
  const shown = await browser.until(`(() => {
    const images = [...document.querySelectorAll('#pictures img')];
    return images.length === 3 && images.every((each) => each.complete && each.naturalWidth > 0) &&
      images.map((each) => each.alt).join(', ');
  })()`, 'three figures are drawn');
  check(shown === 'Figure loss.svg, Figure decision.svg, Figure moons.svg', 'drawn: ' + shown);
  console.log(await browser.evaluate("document.getElementById('state').textContent"));
}

// What a server that compresses sends for all that the page asks for.
function testSize() {
  let bytes = 0;
  for (const file of files(root, build)) bytes += zlib.gzipSync(fs.readFileSync(file)).length;
  check(bytes < MOST_BYTES, `the page is ${(bytes / 1e6).toFixed(1)} MB, compressed by gzip`);
}

async function testStop(browser) {
  await browser.evaluate("document.getElementById('line').focus()");
  await browser.type('while true do end');
  await browser.press(...ENTER);
  await browser.until(BUSY);
  check(await browser.evaluate('1 + 1') === 2, 'the page is alive while a loop runs');
  await browser.press('c', { ctrl: true, number: 67 });
  await browser.until(READY);
  check((await browser.evaluate(logged('note'))).includes('(stopped;'), 'Ctrl+C stops the loop');
  await enter(browser, '"still here"');
  check((await browser.evaluate(logged('out'))).includes('still here'), 'the prompt goes on');
}

async function main() {
  const program = find(['chromium', 'chromium-browser', 'google-chrome']);
  if (!program) skip('Chromium is not installed (Debian: chromium)');
  if (!fs.existsSync(path.join(build, 'moonlet.wasm')))
    skip('the page is not built (sh scripts/platforms.sh wasm build)');
  const server = await serve(root, build);
  const browser = new Chromium(program, 1360, 900);
  try {
    const begun = Date.now();
    await browser.open(`http://127.0.0.1:${server.address().port}/`);
    await browser.until(READY);
    console.log(`ready after ${Date.now() - begun} ms`);
    await testPrompt(browser);
    await testTraining(browser);
    await browser.screenshot(path.join(build, 'page-light.png'));
    await browser.send('Emulation.setEmulatedMedia',
      { features: [{ name: 'prefers-color-scheme', value: 'dark' }] });
    await browser.screenshot(path.join(build, 'page-dark.png'));
    await testStop(browser);
    testSize();
    check(browser.problems.length === 0, 'no script of the page has failed ' + browser.problems);
  } catch (error) {
    console.log(await browser.evaluate("document.getElementById('log').textContent").catch(() => ''));
    throw error;
  } finally {
    await browser.close();
    server.close();
  }
}

main().catch((error) => {
  console.log('wrong: ' + error.message);
  process.exitCode = 1;
});
