-- Wireshark: shows the packets of torus and tree in a capture of the fabric: Ethernet frames of type 0x88B5, on the torus
-- also of type 0x88B6, behind a link header.
-- On the torus the ranks of target and source come first, 4 bytes each, then the link header if there is one.
-- Use: wireshark -X lua_script:xtask/pamir.lua frames.pcap
-- The rank of a node is in the last four bytes of its address, 02:50:rr:rr:rr:rr on the torus, where it has another of its
-- own too, and 02:54:rr:rr:rr:rr on the tree; ff:ff:ff:ff is the fabric.

local pamir = Proto("pamir", "Pamir torus packet")

local kinds = {
  [0] = "Hello", [1] = "Go", [2] = "EagerFirst", [3] = "EagerNext", [4] = "EagerFirstAcked", [5] = "Ack", [6] = "Rts", [7] = "RendezvousDone",
  [8] = "Fence", [9] = "FenceAck", [10] = "Put", [11] = "PutLast", [12] = "Get", [13] = "GetData", [14] = "GetLast",
  [15] = "Rmw", [16] = "Reply", [17] = "Collective", [18] = "Chunk", [19] = "Refused", [20] = "AskAdvice",
  [21] = "Advice", [22] = "Gone", [23] = "Asked", [24] = "AskedAcked", [25] = "Admitted", [26] = "Retry",
  [27] = "Query", [28] = "Unknown", [29] = "PutSignal", [30] = "PutSignalAcked"
}
local HEADER = 32

local f = {
  version = ProtoField.uint8("pamir.version", "Version", base.DEC, nil, 0xe0),
  kind = ProtoField.uint8("pamir.kind", "Kind", base.DEC, kinds, 0x1f),
  dispatch = ProtoField.uint8("pamir.dispatch", "Dispatch"),
  client = ProtoField.uint16("pamir.client", "Client's place", base.DEC, nil, 0x0003),
  generation = ProtoField.uint16("pamir.generation", "Client's generation", base.DEC, nil, 0xfffc),
  origin_task = ProtoField.uint32("pamir.origin_task", "Origin task"),
  target_task = ProtoField.uint32("pamir.target_task", "Target task"),
  origin_context = ProtoField.uint8("pamir.origin_context", "Origin context"),
  target_context = ProtoField.uint8("pamir.target_context", "Target context"),
  header_len = ProtoField.uint16("pamir.header_len", "Header length"),
  message = ProtoField.uint32("pamir.message", "Message"),
  offset = ProtoField.uint32("pamir.offset", "Offset"),
  total = ProtoField.uint32("pamir.total", "Total"),
  payload_len = ProtoField.uint16("pamir.payload_len", "Payload length"),
  reserved = ProtoField.uint16("pamir.reserved", "Reserved"),
  header = ProtoField.bytes("pamir.header", "Header of the message"),
  data = ProtoField.bytes("pamir.data", "Data"),
}
pamir.fields = f

function pamir.dissector(buffer, pinfo, tree)
  if buffer:len() < HEADER then return 0 end
  pinfo.cols.protocol = "PAMIR"
  local t = tree:add(pamir, buffer())
  t:add(f.version, buffer(0, 1))
  t:add(f.kind, buffer(0, 1))
  t:add(f.dispatch, buffer(1, 1))
  t:add_le(f.client, buffer(2, 2))
  t:add_le(f.generation, buffer(2, 2))
  t:add_le(f.origin_task, buffer(4, 4))
  t:add_le(f.target_task, buffer(8, 4))
  t:add(f.origin_context, buffer(12, 1))
  t:add(f.target_context, buffer(13, 1))
  t:add_le(f.header_len, buffer(14, 2))
  t:add_le(f.message, buffer(16, 4))
  t:add_le(f.offset, buffer(20, 4))
  t:add_le(f.total, buffer(24, 4))
  t:add_le(f.payload_len, buffer(28, 2))
  t:add_le(f.reserved, buffer(30, 2))

  local header_len = buffer(14, 2):le_uint()
  local payload_len = math.min(buffer(28, 2):le_uint(), buffer:len() - HEADER)
  if header_len <= payload_len then
    if header_len > 0 then t:add(f.header, buffer(HEADER, header_len)) end
    if payload_len > header_len then
      t:add(f.data, buffer(HEADER + header_len, payload_len - header_len))
    end
  end

  local kind = kinds[buffer(0, 1):uint() % 32] or "unknown kind"
  pinfo.cols.info = string.format("%s task %u.%u -> %u.%u, message %u, %u + %u bytes", kind,
    buffer(4, 4):le_uint(), buffer(12, 1):uint(), buffer(8, 4):le_uint(), buffer(13, 1):uint(),
    buffer(16, 4):le_uint(), header_len, math.max(payload_len - header_len, 0))
  return buffer:len()
end

local tree_packet = Proto("pamir_tree", "Pamir tree packet")
local tree_kinds = {
  [0] = "Hello", [1] = "Welcome", [2] = "Contribute", [3] = "Result", [4] = "Broadcast", [5] = "Credit", [6] = "Allocate",
  [7] = "Opened", [8] = "Refused", [9] = "Release", [10] = "Closed",
  [11] = "Ship", [12] = "Reply"
}
local statuses = {
  [0] = "Good", [1] = "Mismatch", [2] = "Dead", [3] = "Exhausted", [4] = "BadMembers", [5] = "Busy"
}
local TREE_HEADER = 24
local c = {
  version = ProtoField.uint8("pamir_tree.version", "Version"),
  kind = ProtoField.uint8("pamir_tree.kind", "Kind", base.DEC, tree_kinds),
  route = ProtoField.uint8("pamir_tree.route", "Class route"),
  generation = ProtoField.uint8("pamir_tree.generation", "Generation of the route"),
  origin = ProtoField.uint32("pamir_tree.origin", "Origin"),
  sequence = ProtoField.uint32("pamir_tree.sequence", "Sequence"),
  argument = ProtoField.uint32("pamir_tree.argument", "Argument"),
  operator = ProtoField.uint8("pamir_tree.operator", "Operator"),
  element = ProtoField.uint8("pamir_tree.element", "Element"),
  status = ProtoField.uint8("pamir_tree.status", "Status", base.DEC, statuses),
  role = ProtoField.uint8("pamir_tree.role", "Role"),
  taken = ProtoField.uint16("pamir_tree.taken", "Taken"),
  payload_len = ProtoField.uint16("pamir_tree.payload_len", "Payload length"),
  data = ProtoField.bytes("pamir_tree.data", "Data"),
}
tree_packet.fields = c

function tree_packet.dissector(buffer, pinfo, tree)
  if buffer:len() < TREE_HEADER then return 0 end
  pinfo.cols.protocol = "PAMIR TREE"
  local t = tree:add(tree_packet, buffer())
  for at, field in pairs({ [0] = c.version, c.kind, c.route, c.generation }) do
    t:add(field, buffer(at, 1))
  end
  t:add_le(c.origin, buffer(4, 4))
  t:add_le(c.sequence, buffer(8, 4))
  t:add_le(c.argument, buffer(12, 4))
  for at, field in pairs({ [16] = c.operator, [17] = c.element, [18] = c.status, [19] = c.role }) do
    t:add(field, buffer(at, 1))
  end
  t:add_le(c.taken, buffer(20, 2))
  t:add_le(c.payload_len, buffer(22, 2))
  local payload_len = math.min(buffer(22, 2):le_uint(), buffer:len() - TREE_HEADER)
  if payload_len > 0 then t:add(c.data, buffer(TREE_HEADER, payload_len)) end
  pinfo.cols.info = string.format("%s route %u.%u from %u, sequence %u, %s, %u bytes",
    tree_kinds[buffer(1, 1):uint()] or "unknown kind", buffer(2, 1):uint(), buffer(3, 1):uint(), buffer(4, 4):le_uint(),
    buffer(8, 4):le_uint(), statuses[buffer(18, 1):uint()] or "unknown status", payload_len)
  return buffer:len()
end

-- Torus and tree share the type; their addresses tell them apart.
local target = Field.new("eth.dst")
local RANKS = 8
local ranks = Proto("pamir_ranks", "Pamir ranks")
local r = {
  to = ProtoField.uint32("pamir_ranks.to", "Target"),
  from = ProtoField.uint32("pamir_ranks.from", "Source"),
}
ranks.fields = r

local function behind_ranks(proto, buffer, pinfo, tree)
  if buffer:len() < RANKS then return 0 end
  local t = tree:add(ranks, buffer(0, RANKS))
  t:add_le(r.to, buffer(0, 4))
  t:add_le(r.from, buffer(4, 4))
  local taken = proto.dissector(buffer(RANKS):tvb(), pinfo, tree)
  return taken > 0 and taken + RANKS or 0
end

local bare = Proto("pamir_bare", "Pamir packet")

function bare.dissector(buffer, pinfo, tree)
  local on_tree = target().range(0, 2):uint() == 0x0254
  if on_tree then return tree_packet.dissector(buffer, pinfo, tree) end
  return behind_ranks(pamir, buffer, pinfo, tree)
end

DissectorTable.get("ethertype"):add(0x88B5, bare)

local link = Proto("pamir_link", "Pamir link header")
local LINK = 32
local l = {
  checksum = ProtoField.uint32("pamir_link.checksum", "Checksum (CRC-32C)", base.HEX),
  life = ProtoField.uint32("pamir_link.life", "Life", base.HEX),
  connection = ProtoField.uint32("pamir_link.connection", "Connection"),
  own = ProtoField.uint32("pamir_link.own", "Own connection"),
  attempt = ProtoField.uint32("pamir_link.attempt", "Release"),
  sequence = ProtoField.uint32("pamir_link.sequence", "Sequence"),
  acknowledged = ProtoField.uint32("pamir_link.acknowledged", "Acknowledged"),
  sack = ProtoField.uint64("pamir_link.sack", "Selectively acknowledged", base.HEX),
  length = ProtoField.uint16("pamir_link.length", "Length"),
  credit = ProtoField.uint8("pamir_link.credit", "Credit"),
  packet = ProtoField.bool("pamir_link.packet", "Packet", 8, nil, 1),
  probe = ProtoField.bool("pamir_link.probe", "Probe", 8, nil, 2),
  connect = ProtoField.bool("pamir_link.connect", "Connect", 8, nil, 4),
  release = ProtoField.bool("pamir_link.release", "Release", 8, nil, 8),
  released = ProtoField.bool("pamir_link.released", "Released", 8, nil, 16),
  keep = ProtoField.bool("pamir_link.keep", "Keep", 8, nil, 32),
  refused = ProtoField.bool("pamir_link.refused", "Refused", 8, nil, 64),
  word = ProtoField.bool("pamir_link.word", "Word", 8, nil, 128),
}
link.fields = l

function link.dissector(buffer, pinfo, tree)
  if buffer:len() < LINK then return 0 end
  pinfo.cols.protocol = "PAMIR"
  local t = tree:add(link, buffer(0, LINK))
  local flags = buffer(31, 1):uint()
  local handshake = math.floor(flags / 4) % 16
  t:add_le(l.checksum, buffer(0, 4))
  t:add_le(l.life, buffer(4, 4))
  t:add_le(l.connection, buffer(8, 4))
  t:add_le(l.sequence, buffer(12, 4))
  t:add_le(l.acknowledged, buffer(16, 4))
  if handshake > 0 then
    t:add_le(l.own, buffer(20, 4))
    t:add_le(l.attempt, buffer(24, 4))
  else
    t:add_le(l.sack, buffer(20, 8))
  end
  t:add_le(l.length, buffer(28, 2))
  t:add(l.credit, buffer(30, 1))
  for _, flag in ipairs({ l.packet, l.probe, l.connect, l.release, l.released, l.keep, l.refused, l.word }) do
    t:add(flag, buffer(31, 1))
  end
  local says = string.format("connection %u seq %u ack %u credit %u", buffer(8, 4):le_uint(),
    buffer(12, 4):le_uint(), buffer(16, 4):le_uint(), buffer(30, 1):uint())
  if flags % 2 == 0 or flags >= 128 then
    local kind = flags >= 128 and (flags % 2 == 1 and "Void" or "Ready")
      or handshake == 10 and "Last" or handshake >= 8 and "Keep" or handshake >= 4 and "Released" or handshake >= 2 and "Release"
      or handshake >= 1 and "Connect" or flags >= 64 and "Not ready" or flags >= 2 and "Probe" or "Acknowledgement"
    pinfo.cols.info = kind .. ", " .. says
    return LINK
  end
  pamir.dissector(buffer(LINK):tvb(), pinfo, tree)
  pinfo.cols.info:append(" [" .. says .. "]")
  return buffer:len()
end

local reliable = Proto("pamir_reliable", "Pamir packet behind a link header")

function reliable.dissector(buffer, pinfo, tree)
  return behind_ranks(link, buffer, pinfo, tree)
end

DissectorTable.get("ethertype"):add(0x88B6, reliable)
