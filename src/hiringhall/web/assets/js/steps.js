// A name as one step of a path. A browser resolves "." and ".." and drops an empty step, also percent-encoded: these are in base64.

import { bytesOfBase64, decoded, encoded, percentEncoded } from "./text.js";

const BASE64 = "base64:";
const RESOLVED = ["", ".", ".."];

/** The step of a path that means the name of an item. */
export function step(item, field) {
  const name = item[field] ?? "";
  if (RESOLVED.includes(name)) return BASE64 + btoa(name).replace(/=+$/, "");
  return encoded(item, field);
}

/** The name of a step, percent-encoded for a query. */
export function queryOf(text) {
  if (!text.startsWith(BASE64)) return text;
  try {
    return percentEncoded(bytesOfBase64(text.slice(BASE64.length).replaceAll("-", "+").replaceAll("_", "/")));
  } catch {
    return encodeURIComponent(text);
  }
}

/** What a step says to a person. */
export function nameOf(text) {
  return decoded(queryOf(text));
}
