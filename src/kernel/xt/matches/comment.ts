/** `-m comment --comment TEXT`: matches everything (struct xt_comment_info). */
import { type Codec, putText, quoted, textAt } from '../codec.ts';

export interface CommentMatch {
  readonly kind: 'comment';
  /** At most 255 bytes. */
  readonly text: string;
}

const name = 'comment';
const revision = 0;
const bytes = 256;

export function comment(text: string): CommentMatch {
  return { kind: 'comment', text };
}

export const commentCodec: Codec<CommentMatch> = {
  write({ text }, out) {
    const info = new Uint8Array(bytes);
    putText(info, 0, bytes, text);
    out.write('match', { name, revision, info });
  },
  print: ({ text }) => `-m comment --comment ${quoted(text)}`,
};

export function readComment(info: Uint8Array): CommentMatch {
  return comment(textAt(info, 0, bytes));
}
