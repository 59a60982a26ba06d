// Somebody on Matrix with the client library of Element. Each line of standard input is
// something to do, as JSON; each line of standard output something that happened.
//
//     node person.js HOMESERVER USER PASSWORD
//     {"invite":"@bot:test.example"}          makes a private room
//     {"say":"hello"}                         in that room
//     {"answer":"$event","say":"yes"}
//     {"thread":"$event","say":"within it"}

import { createInterface } from 'node:readline';

import { createClient, ClientEvent, EventType, MsgType, RelationType, RoomEvent, RoomMemberEvent } from 'matrix-js-sdk';
import { logger } from 'matrix-js-sdk/lib/logger.js';

logger.setLevel('silent');
const [baseUrl, user, password] = process.argv.slice(2);
const tell = (what) => process.stdout.write(`${JSON.stringify(what)}\n`);

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
  tell({ said: now.body, html: now.formatted_body, by: event.getSender(), id: event.getId(), edits, thread: relation?.rel_type?.endsWith('.thread') ? relation.event_id : undefined });
});
client.on(RoomMemberEvent.Membership, (_event, member) => tell({ member: member.userId, is: member.membership }));
client.on(RoomMemberEvent.Typing, (_event, member) => tell({ member: member.userId, types: member.typing }));

await client.startClient({ initialSyncLimit: 20 });
await new Promise((resolve) => client.once(ClientEvent.Sync, resolve));
tell({ here: userId });

for await (const line of createInterface({ input: process.stdin })) {
  const { invite, say, answer, thread } = JSON.parse(line);
  if (invite) {
    ({ room_id: room } = await client.createRoom({ preset: 'private_chat', is_direct: true, invite: [invite] }));
    tell({ room });
  }
  if (!say) continue;
  const content = { msgtype: MsgType.Text, body: say };
  if (answer) content['m.relates_to'] = { 'm.in_reply_to': { event_id: answer } };
  await client.sendMessage(room, thread ?? null, content);
}
client.stopClient();
process.exit(0);
