-- Creates messages in svix-server. PAYLOAD has the size of our event.
local threads = 0
local count = 0

function setup(thread)
  threads = threads + 1
  thread:set("id", threads)
end

function request()
  count = count + 1
  local headers = {
    ["Authorization"] = "Bearer " .. os.getenv("TOKEN"),
    ["Content-Type"] = "application/json",
  }
  local event_id = "e-" .. os.getenv("RUN") .. "-" .. id .. "-" .. count
  local body = '{"eventType":"charge.created","eventId":"' .. event_id .. '","payload":' .. os.getenv("PAYLOAD") .. '}'
  return wrk.format("POST", "/api/v1/app/" .. os.getenv("APP") .. "/msg/", headers, body)
end
