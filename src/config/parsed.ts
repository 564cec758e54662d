/** The outcome of reading a text: a value, or what is wrong with the text (no field name in it). */
export type Parsed<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly error: string };

export function good<T>(value: T): Parsed<T> {
  return { ok: true, value };
}

export function bad(error: string): { readonly ok: false; readonly error: string } {
  return { ok: false, error };
}
