"""A to-do list for each chat: "list" shows it, "done 2" ends line 2, any other message is a new line."""
import os, sqlite3, sys, time

text = sys.stdin.read().strip()
chat, message = os.environ["MAILROOM_THREAD"], os.environ["MAILROOM_IDEMPOTENCY_KEY"]
db = sqlite3.connect("todo.db", isolation_level=None)
db.execute("CREATE TABLE IF NOT EXISTS todo (message PRIMARY KEY, chat, line, done_by)")
# The script runs again with the same key if it dies: a message adds one line, and ends the line that it ended before.
lines = db.execute("SELECT message, line FROM todo WHERE chat = ? AND ifnull(done_by, ?) = ? ORDER BY rowid",
                   (chat, message, message)).fetchall()
word, _, number = text.partition(" ")
if word == "done" and number.isdecimal():
    for (ended, _) in lines[int(number) - 1:int(number)]:
        db.execute("UPDATE todo SET done_by = ? WHERE message = ?", (message, ended))
elif text != "list":
    db.execute("INSERT OR IGNORE INTO todo VALUES (?, ?, ?, NULL)", (message, chat, text))
while os.path.exists("pause"):  # the change is made, the reply is not: kill something now
    time.sleep(0.1)
lines = db.execute("SELECT line FROM todo WHERE chat = ? AND done_by IS NULL ORDER BY rowid", (chat,))
print("\n".join(f"{n}. {line}" for n, (line,) in enumerate(lines, 1)) or "Nothing to do.")
