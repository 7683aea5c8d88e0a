// The config that `onceish init` writes: one target that loads as it is, and the four kinds of APIs explained.
export const CONFIG_TEMPLATE = `# onceish: which APIs are called, and how careful to be with each.
# "onceish targets" shows what is promised for what is written here.

store: ./onceish.db # relative to this file; made at the first use. Or postgres://onceish@db.example.com/shop, or "{% $env.DATABASE_URL %}"

worker:
  concurrency: 64 # calls at a time to each target, and to all together but for slow ones (over 250 ms; at most four times as many)
  leaseMs: 60000 # a worker that dies keeps its requests at most this long; at least 500 ms longer than any call
  graceMs: 25000 # how long a stopping worker waits for its calls

# What a target can say depends on what its API offers. The four kinds, from the safest:
#
# 1. Client id: we choose the resource's id, so that a second call can only find what the first one made.
#      submit: { method: PUT, url: "https://api.example.com/v1/jobs/{% $key %}" }
#      idempotency: { clientId: true, rememberedFor: 30d }
#      taskId: "{% $response.body.id %}"
#      outcomes: [{ when: "{% $response.status = 409 %}", is: exists }]
#
# 2. Keyed: the API remembers an idempotency key for a known time and answers a repeat with its first answer.
#    The active example below.
#
# 3. Lookup only: it deduplicates nothing, but lists what there is by a reference that we set.
#      submit: { url: "https://api.example.com/v1/orders", body: "{% $merge([$payload, { 'reference': $key }]) %}" }
#      idempotency: { format: uuid } # how the reference is written; without rememberedFor it is never repeated
#      taskId: "{% $response.body.id %}"
#      lookup:
#        url: "https://api.example.com/v1/orders?reference={% $key %}"
#        taskId: "{% $response.body.data.id %}"
#        complete: "{% $response.body.has_more = false %}"
#        settleMs: 60000 # the latest arrival of a call that has left, plus how far the list lags behind
#        missMeans: absent # settled misses prove that it never arrived; "hold" asks a person instead
#        remembers: 30d # how long the list shows what was made
#
# 4. Opaque: nothing to repeat and nothing to ask. A call in doubt waits for a person.
#      submit: { url: "https://api.example.com/v1/messages" }
#      taskId: "{% $response.body.sid %}"

targets:
  example:
    submit:
      method: POST
      url: https://api.example.com/v1/jobs
      # Secrets come from the environment and are never stored:
      # headers: { authorization: "{% 'Bearer ' & $env.EXAMPLE_API_KEY %}" }
      timeoutMs: 30000 # the whole call
    # Whose account the credentials are of. Without it another key counts as another account, and what the old one left in doubt is
    # held; so set it before a key is rotated, best from the start:
    # account: example-prod
    idempotency:
      header: Idempotency-Key
      rememberedFor: 24h # as the API documents it; leave it out where nobody knows
      margin: 1h # nothing is repeated in the last hour of that
    taskId: "{% $response.body.id %}"
    retry: { maxAttempts: 8, initialMs: 1000, maxMs: 300000 }
    # limits: { concurrency: 8, rate: 10/s } # or { bucket: account }, shared by all that name it (buckets: { account: { rate: 10/s } })
    # aging: 10m # ten minutes of waiting are worth one step of priority, so that low ones do not starve
    # expiresAfter: 2h # what was not called two hours after it was due is not called any more
`
