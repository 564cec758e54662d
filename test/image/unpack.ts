/** `node unpack.ts FOLDER PLATFORM`: unpacks what `npm run image` has made into FOLDER/root. */
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { isPlatform } from '../../scripts/image/platforms.ts';
import { unpackImage } from './image.ts';

const project = resolve(import.meta.dirname, '../..');
const { version } = JSON.parse(readFileSync(join(project, 'package.json'), 'utf8'));
const [folder = '', platform = ''] = process.argv.slice(2);
if (!isPlatform(platform)) throw new Error(`no platform: ${platform}`);
const archive = join(project, 'build/image', `fairlead-${version}-linux-${platform}.tar`);
unpackImage(archive, folder, platform);
