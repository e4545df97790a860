// wire.js - the client protocol of moat over a websocket. Each message is one frame, in both
// directions; docs/protocol.md says what frames mean. Text messages are between page and gateway.

const PIECE = 128 * 1024;
export const CLOSE_NO_DAEMON = 4000, CLOSE_TOKEN = 4001, CLOSE_FULL = 4002;

export class CallError extends Error {
  constructor(kind, message) {
    super(message);
    this.kind = kind;
  }
}

function encode(head, blob) {
  const text = new TextEncoder().encode(JSON.stringify(head));
  const body = blob || new Uint8Array(0);
  const frame = new Uint8Array(8 + text.length + body.length);
  const view = new DataView(frame.buffer);
  view.setUint32(0, text.length, true);
  view.setUint32(4, body.length, true);
  frame.set(text, 8);
  frame.set(body, 8 + text.length);
  return frame;
}

function decode(buffer) {
  const view = new DataView(buffer);
  const size = view.getUint32(0, true);
  return {
    head: JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, size))),
    blob: new Uint8Array(buffer, 8 + size, view.getUint32(4, true)),
  };
}

// One request. `done` is a promise of its result.
class Call {
  constructor(wire, id, handlers) {
    this.wire = wire;
    this.id = id;
    this.handlers = handlers;
    this.credit = wire.window;
    this.waiting = null;
    this.done = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
    this.done.catch(() => {}); // whoever wants to know of a failure waits for `done`, too
  }
  frame(type, more, blob) {
    if (this.wire.calls.get(this.id) === this) this.wire.send({ type, id: this.id, ...more }, blob);
  }
  cancel() { this.frame("cancel"); }
  resize(rows, cols) { this.frame("resize", { rows, cols }); }
  eof() { this.frame("eof"); }
  // Sends input; resolves when all of it has been taken in.
  async write(data) {
    for (let at = 0; at < data.length;) {
      while (this.credit <= 0 && this.wire.calls.get(this.id) === this)
        await new Promise((resolve) => { this.waiting = resolve; });
      if (this.wire.calls.get(this.id) !== this) return;
      const piece = data.subarray(at, at + Math.min(PIECE, this.credit));
      this.credit -= piece.length;
      at += piece.length;
      this.frame("data", {}, piece);
    }
  }
  credited(bytes) {
    this.credit += bytes;
    if (this.waiting) this.waiting();
    this.waiting = null;
  }
}

// A connection: made once, over when `onend` has been called.
export class Wire {
  constructor(token, { onready, onend }) {
    this.calls = new Map();
    this.lastId = 0;
    this.window = 0;
    this.readOnly = false;
    this.onready = onready;
    this.onend = onend;
    this.socket = new WebSocket(`ws://${location.host}/socket`);
    this.socket.binaryType = "arraybuffer";
    this.socket.onopen = () => this.socket.send(JSON.stringify({ token }));
    this.socket.onmessage = (event) => this.take(event.data);
    this.socket.onclose = (event) => this.end(event);
  }
  end(event) {
    for (const call of this.calls.values()) {
      call.reject(new CallError("unavailable", "the connection has ended"));
      call.credited(0);
    }
    this.calls.clear();
    this.onend(event.code, event.reason);
  }
  // Whether what changes something may be asked for.
  act(act) { this.socket.send(JSON.stringify({ act })); }
  send(head, blob) {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(encode(head, blob));
  }
  take(data) {
    if (typeof data === "string") {
      this.readOnly = JSON.parse(data).read_only;
      this.send({ type: "hello", protocol: 1, client: "moat web", person: "web console" });
      return;
    }
    const { head, blob } = decode(data);
    if (head.type === "hello") {
      this.window = head.window;
      this.onready(head);
      return;
    }
    const call = this.calls.get(head.id);
    if (!call) return;
    const on = call.handlers;
    if (head.type === "data") on.data?.(blob, head.stream);
    else if (head.type === "event") on.event?.(head.event);
    else if (head.type === "progress") on.progress?.(head);
    else if (head.type === "credit") call.credited(head.bytes);
    else if (head.type === "result" || head.type === "error") {
      this.calls.delete(head.id);
      call.credited(0);
      if (head.type === "result") call.resolve(head.result);
      else call.reject(new CallError(head.error.kind, head.error.message));
    }
  }
  // handlers: data, event, progress; and input: "none", "stream".
  call(op, args = {}, handlers = {}) {
    const call = new Call(this, ++this.lastId, handlers);
    this.calls.set(call.id, call);
    this.send({ type: "request", id: call.id, op, args, input: handlers.input || "none" });
    return call;
  }
  request(op, args) { return this.call(op, args).done; }
}
