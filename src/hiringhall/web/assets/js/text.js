// Text from outside is hostile: characters that do not show, or that change the order of others, are made visible.

// Controls (but for tab and line feed), bidirectional marks, zero-width spaces, fillers, line separators and tag characters.
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u2800\u3164\uffa0\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;

function picture(character) {
  const code = character.codePointAt(0);
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  if (code === 0x7f) return "\u2421";
  return `[U+${code.toString(16).toUpperCase().padStart(4, "0")}]`;
}

export function visible(text) {
  return text.replace(HIDDEN, picture);
}

/** As `visible`, for what is shown in one line: tab and line feed are made visible, too. */
export function visibleLine(text) {
  return visible(text).replace(/[\t\n]/g, picture);
}

/** Cuts a long text, and says so by an ellipsis. */
export function shorten(text, length) {
  const characters = Array.from(text.slice(0, length * 2 + 2));
  return characters.length > length ? `${characters.slice(0, length - 1).join("")}…` : text;
}

export function bytesOfBase64(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

/** The bytes of a field: of its base64 form if it is not valid UTF-8, otherwise of its text. */
export function bytesOf(item, field) {
  const encoded = item[`${field}_base64`];
  return encoded === undefined || encoded === null ? new TextEncoder().encode(item[field] ?? "") : bytesOfBase64(encoded);
}

/** A name for a path or a query: its bytes, percent-encoded, whether they are UTF-8 or not. */
export function encoded(item, field) {
  if (item[`${field}_base64`]) {
    return Array.from(bytesOf(item, field), (byte) => `%${byte.toString(16).toUpperCase().padStart(2, "0")}`).join("");
  }
  // encodeURIComponent leaves "." and ".." as they are, and a browser would resolve them.
  return encodeURIComponent((item[field] ?? "").toWellFormed?.() ?? item[field] ?? "").replace(/^\.+$/, (dots) => "%2E".repeat(dots.length));
}

/** What a percent-encoded name of a path says to a person. */
export function decoded(segment) {
  try {
    return decodeURIComponent(segment.replaceAll("+", "%20"));
  } catch {
    return segment;
  }
}
