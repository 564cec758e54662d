import { tellHandovers } from './handover.ts';

tellHandovers('ipvs');
