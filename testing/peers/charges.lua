-- Creates charges. Each request has its own idempotency key.
local threads = 0
local count = 0

function setup(thread)
  threads = threads + 1
  thread:set("id", threads)
end

function request()
  count = count + 1
  local headers = {
    ["apikey"] = os.getenv("API_KEY"),
    ["Content-Type"] = "application/json",
    ["Idempotency-Key"] = "k-" .. os.getenv("RUN") .. "-" .. id .. "-" .. count,
  }
  local body = '{"amount":1990,"payment_method":"pix","metadata":{"order":"' .. count .. '"}}'
  return wrk.format("POST", "/v1/charges", headers, body)
end
