/** Answers `/fairlead/v1/explain`. */
import type { Explanation } from '../../../ask/explanation.ts';
import { apiVersion } from '../../../ask/schema.ts';
import { guides, socketGuide } from '../../../modes/guides.ts';
import { formatAddress, isLoopback } from '../../../net/address.ts';
import type { Seen } from '../../../state/resolve.ts';
import { objectKey } from '../../../state/types.ts';
import { Pacer } from '../../../sync/clock.ts';
import { serviceAddressProblems, unknownNodeProblems } from '../endpoint-problems.ts';
import type { Inside } from '../inside.ts';
import { Refusal } from '../refusal.ts';
import { sliceMs } from '../services.ts';
import { readClient } from './client.ts';
import { hurdlesOf } from './hurdles.ts';
import { readTarget } from './question.ts';
import type { Scene } from './scene.ts';
import { type Holder, searchBoth } from './search.ts';
import { seenOf } from './selection.ts';
import { isInForce, warningsOf } from './standing.ts';
import { strayOf } from './stray.ts';
import { wayOf } from './way.ts';

/** Throws a Refusal. */
export async function explanationOf(inside: Inside, query: URLSearchParams): Promise<Explanation> {
  const scene = await sceneOf(inside, query);
  const { client, sync, target } = scene;
  const pacer = new Pacer(inside.clock, sliceMs);
  const { inForce, desired } = await searchBoth(scene, pacer);
  const { holder } = inForce;
  const seen = holder && (await seenOf(scene, holder));
  const protocol = holder?.forwarding.servicePort.protocol ?? target.protocol ?? 'TCP';
  const { address, because, kind } = client;
  return {
    apiVersion,
    kind: 'Explanation',
    to: {
      address: formatAddress(target.address.bytes),
      port: target.port,
      protocol,
      family: sync.family,
    },
    from: { kind, address: address && formatAddress(address.bytes), because },
    warnings: [
      ...warningsOf(scene, holder, desired),
      ...endpointWarnings(scene, seen),
      ...(await hurdlesOf(scene, holder)),
    ],
    service: holder && serviceOf(scene, holder),
    ...(holder === undefined
      ? await strayOf(scene, inForce, pacer)
      : await wayOf(scene, holder, seen)),
  };
}

async function sceneOf(inside: Inside, query: URLSearchParams): Promise<Scene> {
  const engine = inside.engine();
  if (engine === undefined) throw new Refusal(503, 'it is starting: nothing is programmed yet');
  const target = readTarget(query.get('to') ?? '', inside.state);
  const { family } = target.address;
  const sync = engine.families.find((one) => one.family === family);
  const setting = engine.setting(family);
  if (sync === undefined || setting === undefined) {
    throw new Refusal(404, `this proxy does not serve ${family}`);
  }
  const { config } = setting;
  const surroundings = { inside, config, context: engine.context, to: target.address };
  const client = await readClient(query.get('from'), surroundings);
  const isBySocket = setting.localhost === 'sockets' && isLoopback(target.address);
  const guide = isBySocket ? socketGuide : guides[inside.mode()];
  return { inside, engine, sync, setting, guide, target, client };
}

/** What its EndpointSlices say of endpoints that cannot work. */
function endpointWarnings({ engine, inside }: Scene, seen: Seen | undefined): string[] {
  if (seen === undefined) return [];
  const { name, namespace } = seen.forwarding.servicePort;
  const key = objectKey(namespace, name);
  const service = inside.state.service(key);
  if (service === undefined) return [];
  const problems = [
    ...serviceAddressProblems(engine, inside.state, key, [seen]),
    ...unknownNodeProblems(service, inside.state.slices(key)),
  ];
  return problems.map(({ text }) => text());
}

function serviceOf(scene: Scene, { forwarding, frontend }: Holder): Explanation['service'] {
  const { namespace, name, port } = forwarding.servicePort;
  return { namespace, name, port, frontend: frontend.kind, inForce: isInForce(scene, forwarding) };
}
