-- Takes one run and its records from one fact to a later one: all of it or
-- nothing, and nothing where it has been done before.
--
-- KEYS[1]    the run, a hash
-- KEYS[2]    its completed calls, a list of "<call> <tool call id>"
-- KEYS[3]    its model operations, a hash
-- KEYS[4..]  records, hashes, one for each change below and in that order
--
-- ARGV[1]    version of the layout
-- ARGV[2]    stage: "records" writes the records ahead of the run, "run" all
-- ARGV[3]    from: the fact at which the run stands at least; "0" writes it anew
-- ARGV[4]    target: the fact at which it stands afterwards
-- ARGV[5]    digest of that fact
-- ARGV[6]    when run, list and operations expire, Unix ms
-- ARGV[7]    started_at     \
-- ARGV[8]    start.sequence  > of the run: which history this is
-- ARGV[9]    start.id       /
-- ARGV[10]   number of names and values that follow, together
-- ARGV[11..] names and values of the run's fields, in turn
-- then for the operations:
--   number       of names and values that follow, together
--   names and values of their fields, in turn; fields that are not among them stay
-- then for each record:
--   reserved     "1" if its reservation lies after from
--   settled      "1" if its settlement does
--   call         the fact that reserved it
--   reserved_at  with call: which reservation this is
--   expires      when the record expires, Unix ms
--   status       after the target
--   entry        what the list says of it once it is settled
--   number       of names and values that follow; "0" if a stage has written them
--   names and values of the record's fields, in turn
--
-- Replies "DONE", "PAST" (the run stands there or further), "EXPIRED" (so
-- nothing is to be written), "BEHIND <fact>" (the run stands before from),
-- "LOST <what>" (what the run said was there is not; the run is dropped, to be
-- written anew), "CONFLICT <what>", or "VERSION <version>" (of an unknown layout).
--
-- Everything is checked before the first write, since an error does not roll
-- back. Numbers stay strings: Lua's own are exact only up to 2^53.

local version, stage, from, target = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local whole = from == '0'

local function less(a, b)
  if #a ~= #b then return #a < #b end
  return a < b
end

-- In pieces, because unpack takes only so many. Gives how many fields are new.
local function put(key, first, last)
  local added = 0
  for i = first, last, 200 do
    added = added + redis.call('HSET', key, unpack(ARGV, i, math.min(i + 199, last)))
  end
  return added
end

-- The operations stay until the run is written anew.
local function lost(what)
  redis.call('DEL', KEYS[1], KEYS[2])
  return 'LOST ' .. what
end

local time = redis.call('TIME')
local now = time[1] .. string.format('%03d', math.floor(tonumber(time[2]) / 1000))
if not less(now, ARGV[6]) then return 'EXPIRED' end

-- The run.
local run = redis.call('HMGET', KEYS[1], 'v', 'sequence', 'digest', 'done', 'started_at', 'start.sequence', 'start.id', 'ops')
local listed = redis.call('LLEN', KEYS[2])
local operations = 11 + tonumber(ARGV[10]) -- of their number, in ARGV
local first_operation, last_operation = operations + 1, operations + tonumber(ARGV[operations])
local held = 0 -- not asked for where there are none
if whole or run[8] or last_operation > operations then held = redis.call('HLEN', KEYS[3]) end
local at = '0'
if run[1] then
  if run[1] ~= version then return 'VERSION ' .. run[1] end
  if run[5] ~= ARGV[7] or (run[6] or '0') ~= ARGV[8] or (run[7] or '') ~= ARGV[9] then
    return 'CONFLICT another history'
  end
  at = run[2]
  if not at or not string.find(at, '^%d+$') then return 'CONFLICT a run without a sequence' end
  if not whole and listed ~= tonumber(run[4] or '0') then return lost('list') end
  if not whole and held ~= tonumber(run[8] or '0') then return lost('operations') end
  if at == target and (run[3] or '') ~= ARGV[5] then return 'CONFLICT another digest' end
  if less(target, at) or (at == target and not whole) then return 'PAST' end
elseif redis.call('EXISTS', KEYS[1]) == 1 then
  return 'CONFLICT not a run'
end
if less(at, from) then return 'BEHIND ' .. at end

-- Its records.
local changes = {}
local next_change = last_operation + 1
for k = 4, #KEYS do
  local reserved, settled, call, reserved_at, expires, status, entry, count = unpack(ARGV, next_change, next_change + 7)
  local change = {
    key = KEYS[k], settled = settled == '1', call = call, expires = expires, entry = entry,
    first = next_change + 8, last = next_change + 7 + tonumber(count), brings = count ~= '0',
  }
  next_change = change.last + 1
  local have = redis.call('HMGET', KEYS[k], 'v', 'call', 'reserved_at', 'status')
  if have[1] then
    if have[1] ~= version then return 'VERSION ' .. have[1] end
    if have[2] ~= call or have[3] ~= reserved_at then return 'CONFLICT another reservation' end
    if have[4] == 'PROJECTING' then
      if change.settled and not change.brings then return lost('record') end
      change.write = true
    elseif change.settled and have[4] ~= status then
      return 'CONFLICT another settlement'
    end -- else it is there, settled, and stays as it is
  elseif redis.call('EXISTS', KEYS[k]) == 1 then
    return 'CONFLICT not a record'
  elseif less(now, expires) then -- an expired one is not created again
    if reserved ~= '1' or not change.brings then return lost('record') end
    change.write, change.create = true, true
  end
  changes[#changes + 1] = change
end

-- From here on it is only writing. The first write is one that a full memory
-- refuses; the rest of a script that has written is let through.
if stage == 'run' then
  if whole then
    redis.call('HSET', KEYS[1], 'v', version)
    redis.call('DEL', KEYS[1], KEYS[2], KEYS[3])
    at, listed, held = '0', 0, 0
  end
  put(KEYS[1], 11, operations - 1)
  if whole then redis.call('PEXPIREAT', KEYS[1], ARGV[6]) end
  local added = put(KEYS[3], first_operation, last_operation)
  if added > 0 then
    redis.call('HSET', KEYS[1], 'ops', held + added)
    if held == 0 then redis.call('PEXPIREAT', KEYS[3], ARGV[6]) end
  end
end

local length = listed
for _, change in ipairs(changes) do
  if change.write then
    put(change.key, change.first, change.last)
    if change.create then redis.call('PEXPIREAT', change.key, change.expires) end
  end
  if change.settled and stage == 'run' then
    -- Listed already if the run stands past its settlement: then it knows the
    -- reservation, and no longer has it open.
    local open = redis.call('HDEL', KEYS[1], 'open:' .. change.call) == 1
    if open or less(at, change.call) then length = redis.call('RPUSH', KEYS[2], change.entry) end
  end
end
if length > listed then
  redis.call('HSET', KEYS[1], 'done', length)
  if listed == 0 then redis.call('PEXPIREAT', KEYS[2], ARGV[6]) end
end
return 'DONE'
