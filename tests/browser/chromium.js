// tests/browser/chromium.js: Chromium without a window, told what to do through its debugging pipe.
'use strict';
const { spawn } = require('child_process');
const fs = require('fs');
const os = require('os');
const path = require('path');

const PATIENCE = 120000;  // milliseconds for a condition of the page
const BETWEEN_LOOKS = 50;

class Chromium {
  constructor(program, width, height) {
    this.folder = fs.mkdtempSync(path.join(os.tmpdir(), 'moonlet-browser-'));
    this.answers = new Map();
    this.lastId = 0;
    this.rest = '';
    this.problems = [];
    this.process = spawn(program, ['--headless=new', '--no-sandbox', '--disable-gpu',
      '--remote-debugging-pipe', '--user-data-dir=' + this.folder, '--no-first-run',
      '--disable-dev-shm-usage', `--window-size=${width},${height}`, 'about:blank'],
    { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });
    this.process.on('exit', () => this.fail('Chromium has ended'));
    this.process.stdio[4].on('data', (bytes) => this.receive(bytes.toString()));
  }

  fail(reason) {
    for (const { reject } of this.answers.values()) reject(new Error(reason));
    this.answers.clear();
  }

  // Messages end with a NUL.
  receive(text) {
    const parts = (this.rest + text).split('\0');
    this.rest = parts.pop();
    for (const part of parts) {
      const message = JSON.parse(part);
      const answer = this.answers.get(message.id);
      if (message.method === 'Runtime.exceptionThrown') {
        const details = message.params.exceptionDetails;
        this.problems.push((details.exception && details.exception.description) || details.text);
      }
      if (!answer) continue;
      this.answers.delete(message.id);
      if (message.error) answer.reject(new Error(message.error.message));
      else answer.resolve(message.result);
    }
  }

  send(method, params = {}) {
    const id = ++this.lastId;
    const message = { id, method, params };
    if (this.session) message.sessionId = this.session;
    this.process.stdio[3].write(JSON.stringify(message) + '\0');
    return new Promise((resolve, reject) => this.answers.set(id, { resolve, reject }));
  }

  async open(url) {
    const { targetId } = await this.send('Target.createTarget', { url });
    const { sessionId } = await this.send('Target.attachToTarget', { targetId, flatten: true });
    this.session = sessionId;
    await this.send('Runtime.enable');
    await this.send('Page.enable');
  }

  async evaluate(expression) {
    const { result, exceptionDetails } =
      await this.send('Runtime.evaluate', { expression, returnByValue: true });
    if (exceptionDetails) throw new Error(expression + ': ' + exceptionDetails.text);
    return result.value;
  }

  async until(expression, what = expression) {
    const end = Date.now() + PATIENCE;
    for (;;) {
      const value = await this.evaluate(expression);
      if (value) return value;
      if (Date.now() > end) throw new Error('waited in vain until ' + what);
      await new Promise((resolve) => setTimeout(resolve, BETWEEN_LOOKS));
    }
  }

  type(text) { return this.send('Input.insertText', { text }); }

  async press(key, { code = key, ctrl = false, number = 0, text } = {}) {
    const event = { key, code, modifiers: ctrl ? 2 : 0, windowsVirtualKeyCode: number };
    await this.send('Input.dispatchKeyEvent', { ...event, type: text ? 'keyDown' : 'rawKeyDown', text });
    await this.send('Input.dispatchKeyEvent', { ...event, type: 'keyUp' });
  }

  async screenshot(file) {
    const { data } = await this.send('Page.captureScreenshot', { format: 'png' });
    fs.writeFileSync(file, Buffer.from(data, 'base64'));
  }

  async close() {
    const ended = new Promise((resolve) => this.process.once('exit', resolve));
    this.process.kill();
    await ended;
    fs.rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

module.exports = { Chromium };
