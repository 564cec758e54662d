import { secondProxyCases } from './second-proxy-cases.ts';

secondProxyCases('ipvs');
