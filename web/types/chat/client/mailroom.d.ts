// The server serves the modules of clients/js at this place.
export * from '../../../../clients/js/mailroom.js';
