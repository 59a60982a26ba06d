// A Matrix user with matrix-js-sdk, the client library of Element. Each line of standard input is a
// command in JSON; each line of standard output is an event.
//
//     node person.js HOMESERVER USER PASSWORD
//     {"invite":"@bot:test.example"}          creates a private room
//     {"say":"hello"}                         sends a message there
//     {"answer":"$event","say":"yes"}
//     {"thread":"$event","say":"within it"}

import { createInterface } from 'node:readline';

import { createClient, ClientEvent, EventType, MsgType, RelationType, RoomEvent, RoomMemberEvent } from 'matrix-js-sdk';
import { logger } from 'matrix-js-sdk/lib/logger.js';

logger.setLevel('silent');
const [baseUrl, user, password] = process.argv.slice(2);
const emit = (what) => process.stdout.write(`${JSON.stringify(what)}\n`);

const { access_token: accessToken, user_id: userId, device_id: deviceId } = await createClient({ baseUrl }).login('m.login.password', {
  identifier: { type: 'm.id.user', user },
  password,
});
const client = createClient({ baseUrl, accessToken, userId, deviceId });
let room = null;

client.on(RoomEvent.Timeline, (event, _room, before) => {
  if (before || event.getType() !== EventType.RoomMessage) return;
  const content = event.getContent();
  const relation = event.getRelation();
  const edits = relation?.rel_type === RelationType.Replace ? relation.event_id : undefined;
  const now = edits ? content['m.new_content'] : content;
  emit({ said: now.body, html: now.formatted_body, by: event.getSender(), id: event.getId(), edits, thread: relation?.rel_type?.endsWith('.thread') ? relation.event_id : undefined });
});
client.on(RoomMemberEvent.Membership, (_event, member) => emit({ member: member.userId, is: member.membership }));
client.on(RoomMemberEvent.Typing, (_event, member) => emit({ member: member.userId, types: member.typing }));

await client.startClient({ initialSyncLimit: 20 });
await new Promise((resolve) => client.once(ClientEvent.Sync, resolve));
emit({ here: userId });

for await (const line of createInterface({ input: process.stdin })) {
  const { invite, say, answer, thread } = JSON.parse(line);
  if (invite) {
    ({ room_id: room } = await client.createRoom({ preset: 'private_chat', is_direct: true, invite: [invite] }));
    emit({ room });
  }
  if (!say) continue;
  const content = { msgtype: MsgType.Text, body: say };
  if (answer) content['m.relates_to'] = { 'm.in_reply_to': { event_id: answer } };
  await client.sendMessage(room, thread ?? null, content);
}
client.stopClient();
process.exit(0);
