/** What `enableProfiling` adds to the metrics server (behaviour document 10.4). */
import { forThisNode } from './ask/admission.ts';
import { type Reply, type Routes, textHeaders } from './reply.ts';

/** klog's verbosity is an int32. */
const verbosityMax = 2 ** 31 - 1;

export function debugRoutes(setVerbosity: (verbosity: number) => void): Routes {
  return forThisNode({
    '/debug/flags': () => text(200, 'PUT a number to /debug/flags/v to change the verbosity\n'),
    '/debug/flags/v': ({ method, body }) => {
      if (method !== 'PUT') return text(406, `unsupported method ${method}: PUT a number\n`);
      const word = body.trim();
      if (!/^\d{1,10}$/.test(word) || Number(word) > verbosityMax) {
        return text(400, `${JSON.stringify(word)} is not a verbosity: PUT a number\n`);
      }
      setVerbosity(Number(word));
      return text(200, `successfully set verbosity to ${word}\n`);
    },
  });
}

function text(status: number, body: string): Reply {
  return { status, headers: textHeaders, body };
}
