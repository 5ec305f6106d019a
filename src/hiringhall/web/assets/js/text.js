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

export function base64(bytes) {
  return btoa(String.fromCharCode(...bytes));
}

/** Bytes as text; null if they are not UTF-8. */
export function textOf(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

/** The bytes of a field: of its base64 form if it is not valid UTF-8, otherwise of its text. */
export function bytesOf(item, field) {
  const encoded = item[`${field}_base64`];
  return encoded === undefined || encoded === null ? new TextEncoder().encode(item[field] ?? "") : bytesOfBase64(encoded);
}

export function percentEncoded(bytes) {
  return Array.from(bytes, (byte) => `%${byte.toString(16).toUpperCase().padStart(2, "0")}`).join("");
}

/** A name for a query: its bytes, percent-encoded, whether they are UTF-8 or not. */
export function encoded(item, field) {
  if (item[`${field}_base64`]) return percentEncoded(bytesOf(item, field));
  return encodeURIComponent((item[field] ?? "").toWellFormed?.() ?? item[field] ?? "");
}

/** What a percent-encoded name says to a person. */
export function decoded(text) {
  try {
    return decodeURIComponent(text.replaceAll("+", "%20"));
  } catch {
    return text;
  }
}

/** The bytes of a percent-encoded name. */
export function bytesOfEncoded(text) {
  const parts = text.replaceAll("+", "%20").match(/%[0-9a-f]{2}|[^%]+|%/gi) ?? [];
  return Uint8Array.from(parts.flatMap((part) => (/^%../.test(part) ? [parseInt(part.slice(1), 16)] : [...new TextEncoder().encode(part)])));
}
