"""What the server accepts; sizes are in bytes. They are checked before a request is sent."""

TEXT = 1 << 20
CHECKPOINT = 256 << 10
ENTRY = 256 << 10
STATE = 16 << 10
EFFECT = 1 << 20
ANSWER = 64 << 10
BLOB = 16 << 20
BLOB_NAME = 256
BODY = 4 << 20  # of a request
CLAIM_BODY = 12 << 20  # of a request under a claim
MESSAGE = 64 << 10  # of a failure; the server takes more
LABEL = 1000  # of a name that is shown
LOST = 20  # claims of a run that were lost, after which it fails for good
CONTRACT_BLOBS = 5  # worker contract of servers that have blobs
EXTEND = 8760 * 3600  # seconds that a step may ask for
