/** Answers `/fairlead/v1/explain`. */
import type { Explained, Explanation } from '../../../ask/explanation.ts';
import { apiVersion } from '../../../ask/schema.ts';
import { guides, socketGuide } from '../../../modes/guides.ts';
import { formatAddress, isLoopback } from '../../../net/address.ts';
import { type Protocol, protocols } from '../../../net/protocol.ts';
import type { Seen } from '../../../state/resolve.ts';
import { objectKey } from '../../../state/types.ts';
import { Pacer } from '../../../time/pacer.ts';
import { serviceAddresses, unknownNodeProblems } from '../endpoint-problems.ts';
import type { Inside } from '../inside.ts';
import { Refusal } from '../refusal.ts';
import { sliceMs } from '../services.ts';
import { readClient } from './client.ts';
import { hurdlesOf, obstaclesOf, unroutable } from './hurdles.ts';
import { readQuestion } from './question.ts';
import type { Scene } from './scene.ts';
import { claimed, type Holder, searchBoth } from './search.ts';
import { seenOf } from './selection.ts';
import { isInForce, warningsOf } from './standing.ts';
import { strayOf } from './stray.ts';
import { wayOf } from './way.ts';

/** Throws a Refusal. */
export async function explanationOf(inside: Inside, query: URLSearchParams): Promise<Explanation> {
  const pacer = new Pacer(inside.clock, sliceMs);
  const { protocols, scene } = await sceneOf(inside, query, pacer);
  const first = await explain(scene, pacer);
  const also: Explained[] = [];
  for (const protocol of protocols.slice(1)) {
    also.push(await explain({ ...scene, target: { ...scene.target, protocol } }, pacer));
  }
  return { apiVersion, kind: 'Explanation', ...first, ...(also.length > 0 && { also }) };
}

async function explain(scene: Scene, pacer: Pacer): Promise<Explained> {
  const { client, sync, target } = scene;
  const { inForce, desired } = await searchBoth(scene, pacer);
  const { holder } = inForce;
  const seen = holder && (await seenOf(scene, holder));
  const { address, because, kind } = client;
  const services = serviceAddressesOf(scene, seen);
  const routes = await unroutable(scene, holder);
  const obstacles = await obstaclesOf(scene, holder);
  return {
    to: {
      address: formatAddress(target.address.bytes),
      port: target.port,
      protocol: target.protocol,
      family: sync.family,
    },
    from: { kind, address: address && formatAddress(address.bytes), because },
    warnings: [
      ...warningsOf(scene, holder, desired),
      ...services.map(({ text }) => text()),
      ...unknownNodes(scene, seen),
      ...routes.map(({ text }) => text),
      ...obstacles.map(({ text }) => text()),
      ...(await hurdlesOf(scene, holder, obstacles)),
    ],
    unreachable: unreachable([...services, ...routes, ...obstacles], holder),
    service: holder && serviceOf(scene, holder),
    ...(holder === undefined
      ? await strayOf(scene, inForce, pacer)
      : await wayOf(scene, holder, seen)),
  };
}

/** An obstacle without an endpoint is before all of them. */
function unreachable(
  found: readonly { readonly endpoint: string | undefined }[],
  holder: Holder | undefined,
): string[] {
  const named = found.map(({ endpoint }) => endpoint);
  const all = named.includes(undefined) && holder !== undefined ? addressesOf(holder) : [];
  return [...new Set([...named.filter((one) => one !== undefined), ...all])];
}

/** The most addresses that are listed. */
const addressesMax = 100;

function addressesOf({ forwarding: { cluster, local } }: Holder): string[] {
  const list = cluster.length > 0 ? cluster : local;
  const count = Math.min(list.length, addressesMax);
  return Array.from({ length: count }, (_, i) => formatAddress(list.address(i)));
}

interface Asked {
  readonly scene: Scene;
  /** The frontends to explain; the first is that of `scene`. */
  readonly protocols: readonly Protocol[];
}

async function sceneOf(inside: Inside, query: URLSearchParams, pacer: Pacer): Promise<Asked> {
  const engine = inside.engine();
  if (engine === undefined) throw new Refusal(503, 'it is starting: nothing is programmed yet');
  const asked = await readQuestion(query.get('to') ?? '', inside.state, pacer);
  const { family } = asked.address;
  const sync = engine.families.find((one) => one.family === family);
  const setting = engine.setting(family);
  if (sync === undefined || setting === undefined) {
    throw new Refusal(404, `this proxy does not serve ${family}`);
  }
  const { config } = setting;
  const surroundings = { inside, config, context: engine.context, to: asked.address };
  const client = await readClient(query.get('from'), surroundings);
  const isBySocket = setting.localhost === 'sockets' && isLoopback(asked.address);
  const guide = isBySocket ? socketGuide : guides[inside.mode()];
  const { protocols, ...place } = asked;
  const all =
    protocols.length > 0 ? protocols : protocolsAt({ engine, inside, sync, target: place });
  const target = { ...place, protocol: all[0]! };
  return { scene: { inside, engine, sync, setting, guide, target, client }, protocols: all };
}

/** TCP, which an address alone means, and the other protocols with which Services have it. */
function protocolsAt(place: Parameters<typeof claimed>[0]): Protocol[] {
  return protocols.filter((one) => one === 'TCP' || claimed(place, one) !== undefined);
}

/** Endpoints that are addresses of Services. */
function serviceAddressesOf({ engine, inside }: Scene, seen: Seen | undefined) {
  if (seen === undefined) return [];
  const { name, namespace } = seen.forwarding.servicePort;
  return serviceAddresses(engine, inside.state, objectKey(namespace, name), [seen]);
}

function unknownNodes({ inside }: Scene, seen: Seen | undefined): string[] {
  if (seen === undefined) return [];
  const { name, namespace } = seen.forwarding.servicePort;
  const key = objectKey(namespace, name);
  const service = inside.state.service(key);
  if (service === undefined) return [];
  return unknownNodeProblems(service, inside.state.slices(key)).map(({ text }) => text());
}

function serviceOf(scene: Scene, { forwarding, frontend }: Holder): Explanation['service'] {
  const { namespace, name, port } = forwarding.servicePort;
  return { namespace, name, port, frontend: frontend.kind, inForce: isInForce(scene, forwarding) };
}
