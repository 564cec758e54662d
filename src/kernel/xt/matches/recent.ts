/**
 * `-m recent`: lists of source addresses that packets fill and ask (struct xt_recent_mtinfo_v1).
 * The first rule that names a list makes it, and with the last one it is deleted.
 */
import { type Codec, type Context, putText, structure, textAt, viewOf } from '../codec.ts';

export type RecentMatch = {
  readonly kind: 'recent';
  /** Name of the list; at most 199 bytes. */
  readonly list: string;
} & (
  | { readonly action: 'set' }
  /** Matches what came within `seconds`; older entries are dropped (`--reap`). */
  | { readonly action: 'rcheck'; readonly seconds: number }
);

const name = 'recent';
const revision = 1;
const at = { seconds: 0, actions: 8, list: 10, mask: 212, end: 228 } as const;
const listBytes = 200;
const XT_RECENT = { CHECK: 0x01, SET: 0x02, REAP: 0x20 } as const;

/** Puts the source into the list. */
export function recentSet(list: string): RecentMatch {
  return { kind: 'recent', action: 'set', list };
}

/** Whether the source is in the list since at most `seconds`. */
export function recentCheck(list: string, seconds: number): RecentMatch {
  return { kind: 'recent', action: 'rcheck', list, seconds };
}

const masks = {
  IPv4: '255.255.255.255',
  IPv6: 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff',
} as const satisfies Record<Context['family'], string>;

export const recentCodec: Codec<RecentMatch> = {
  write(match, out) {
    const { info, view } = structure(at.end);
    if (match.action === 'rcheck') {
      view.setUint32(at.seconds, match.seconds, true);
      view.setUint8(at.actions, XT_RECENT.CHECK | XT_RECENT.REAP);
    } else {
      view.setUint8(at.actions, XT_RECENT.SET);
    }
    putText(info, at.list, listBytes, match.list);
    info.fill(0xff, at.mask, at.end);
    out.write('match', { name, revision, info });
  },
  print(match, { family }) {
    const action = match.action === 'set' ? '--set' : `--rcheck --seconds ${match.seconds} --reap`;
    return `-m recent ${action} --name ${match.list} --mask ${masks[family]} --rsource`;
  },
};

export function readRecent(info: Uint8Array): RecentMatch {
  const view = viewOf(info);
  const list = textAt(info, at.list, listBytes);
  if (view.getUint8(at.actions) === XT_RECENT.SET) return recentSet(list);
  return recentCheck(list, view.getUint32(at.seconds, true));
}
