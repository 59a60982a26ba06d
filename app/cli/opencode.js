// `mailroom connect opencode` has written this file, and `mailroom disconnect opencode` removes it.
// It adds the MCP server mailroom to opencode, and begins a turn of the session when messages wait in its inbox.
import { spawn } from "node:child_process"
import { createInterface } from "node:readline"

const settings = SETTINGS

const pause = 30_000 // before a process that has ended is started again, in milliseconds

export const Mailroom = async ({ client }) => {
  const sessions = new Map() // by id: { root, agent, model, asked }, asked: ids of open questions to the person
  let current = "" // the session to ring: the last one that a person wrote to
  let process_, timer, said

  const send = (line) => process_?.stdin.write(JSON.stringify(line) + "\n")
  const tell = () => {
    const held = sessions.get(current)?.asked.size ? "it waits for its user's answer" : ""
    const line = JSON.stringify({ session: current, held })
    if (line !== said && process_) process_.stdin.write((said = line) + "\n")
  }
  const know = async (id) => {
    if (!sessions.has(id)) {
      const found = await client.session.get({ path: { id } })
      if (!sessions.has(id)) sessions.set(id, { root: !found.data?.parentID, asked: new Set() })
    }
    return sessions.get(id)
  }
  const ring = async ({ session, text }) => {
    const s = sessions.get(session)
    const body = { parts: [{ type: "text", text }] }
    if (s?.agent) body.agent = s.agent // without it, a session that only plans would begin to build
    if (s?.model) body.model = s.model
    const got = await client.session.promptAsync({ path: { id: session }, body })
    if (got.error) throw new Error(JSON.stringify(got.error).slice(0, 300))
  }
  const start = () => {
    said = undefined
    const child = (process_ = spawn(settings.command, settings.ring, { stdio: ["pipe", "pipe", "ignore"] }))
    const again = () => {
      if (process_ !== child) return
      process_ = undefined
      timer = setTimeout(start, pause)
      timer.unref?.()
    }
    child.on("error", again)
    child.on("exit", again)
    child.stdin.on("error", () => {})
    createInterface({ input: child.stdout }).on("line", async (line) => {
      let session = "", n
      try {
        const asked = JSON.parse(line)
        session = asked.session
        n = asked.ring
        await ring(asked)
        send({ session, rung: true, ring: n })
      } catch (error) {
        send({ session, error: String(error), ring: n })
      }
    })
    tell()
  }

  if (!process.env.MAILROOM_THREAD) start() // not in a run of Mailroom
  return {
    config: async (config) => {
      config.mcp ??= {}
      config.mcp.mailroom ??= {
        type: "local", command: [settings.command, ...settings.mcp], environment: settings.env, enabled: true,
      }
    },
    event: async ({ event: { type, properties: p } }) => {
      if (type === "session.created") sessions.set(p.info.id, { root: !p.info.parentID, asked: new Set() })
      if (type === "session.deleted") {
        sessions.delete(p.info.id)
        if (current === p.info.id) current = ""
      }
      if (type === "message.updated" && p.info.role === "user") {
        const s = await know(p.info.sessionID)
        s.agent = p.info.agent
        s.model = p.info.model && { providerID: p.info.model.providerID, modelID: p.info.model.modelID }
        if (s.root) current = p.info.sessionID
      }
      if (type === "permission.asked" || type === "question.asked") (await know(p.sessionID)).asked.add(p.id)
      if (/^(permission|question)\.(replied|rejected)$/.test(type)) {
        sessions.get(p.sessionID)?.asked.delete(p.requestID ?? p.permissionID)
      }
      if (type === "session.idle") sessions.get(p.sessionID)?.asked.clear()
      tell()
    },
    dispose: async () => {
      clearTimeout(timer)
      const child = process_
      process_ = undefined
      child?.stdin.end()
    },
  }
}
