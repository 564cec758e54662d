/** CPU profiles, with `enableProfiling` (behaviour document 10.4). */
import { setTimeout as sleep } from 'node:timers/promises';
import { forThisNode } from './ask/admission.ts';
import { type Asked, jsonHeaders, type Reply, type Routes, textReply } from './reply.ts';

const secondsDefault = 30;
const secondsMax = 300;

const index = `Profiles of V8, for the Performance panel of Chrome's developer tools:
/debug/pprof/profile?seconds=${secondsDefault}
`;

/** The paths are those of pprof; the format of profiles is V8's. */
export function profileRoutes(): Routes {
  const underWay = { profile: false };
  return forThisNode({
    '/debug/pprof': () => ({ status: 302, headers: { Location: '/debug/pprof/' }, body: '' }),
    '/debug/pprof/': () => textReply(200, index),
    '/debug/pprof/profile': async (asked) => {
      if (underWay.profile) return textReply(503, 'a profile is under way\n');
      underWay.profile = true;
      try {
        return await profile(asked);
      } finally {
        underWay.profile = false;
      }
    },
  });
}

async function profile({ query }: Asked): Promise<Reply> {
  const word = query.get('seconds') ?? String(secondsDefault);
  const seconds = Number(word);
  if (!(seconds > 0 && seconds <= secondsMax)) {
    return textReply(400, `seconds=${word}: must be above 0, at most ${secondsMax}\n`);
  }
  // Loaded where a profile is asked for: it seldom is.
  const { Session } = process.getBuiltinModule('node:inspector/promises');
  const session = new Session();
  session.connect();
  try {
    await session.post('Profiler.enable');
    await session.post('Profiler.start');
    await sleep(seconds * 1000, undefined, { ref: false });
    const { profile: body } = await session.post('Profiler.stop');
    const disposition = 'attachment; filename="fairlead.cpuprofile"';
    const headers = { ...jsonHeaders, 'Content-Disposition': disposition };
    return { status: 200, headers, body: JSON.stringify(body) };
  } finally {
    session.disconnect();
  }
}
