-- Wireshark: shows the packets of the torus (Ethernet frames of type 0x88B5; of type 0x88B6 behind a link header)
-- in a capture of the fabric.
-- Use: wireshark -X lua_script:xtask/pamir.lua frames.pcap
-- The rank of a node is in the last four bytes of its address 02:50:rr:rr:rr:rr; ff:ff:ff:ff is the fabric.

local pamir = Proto("pamir", "Pamir torus packet")

local kinds = {
  [0] = "Hello", [1] = "Go", [2] = "First", [3] = "Next", [4] = "FirstAcked", [5] = "Ack", [6] = "Rts", [7] = "Pulled",
  [8] = "Fence", [9] = "FenceAck", [10] = "Put", [11] = "PutLast", [12] = "Get", [13] = "GetData", [14] = "GetLast",
  [15] = "Rmw", [16] = "Reply", [17] = "Collective", [18] = "Chunk", [19] = "Refused", [20] = "AskAdvice",
  [21] = "Advice", [22] = "Gone", [23] = "Asked", [24] = "AskedAcked", [25] = "Admitted", [26] = "Retry"
}
local HEADER = 32

local f = {
  version = ProtoField.uint8("pamir.version", "Version"),
  kind = ProtoField.uint8("pamir.kind", "Kind", base.DEC, kinds),
  client = ProtoField.uint8("pamir.client", "Client"),
  dispatch = ProtoField.uint8("pamir.dispatch", "Dispatch"),
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
  t:add(f.kind, buffer(1, 1))
  t:add(f.client, buffer(2, 1))
  t:add(f.dispatch, buffer(3, 1))
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

  local kind = kinds[buffer(1, 1):uint()] or "unknown kind"
  pinfo.cols.info = string.format("%s task %u.%u -> %u.%u, message %u, %u + %u bytes", kind,
    buffer(4, 4):le_uint(), buffer(12, 1):uint(), buffer(8, 4):le_uint(), buffer(13, 1):uint(),
    buffer(16, 4):le_uint(), header_len, math.max(payload_len - header_len, 0))
  return buffer:len()
end

DissectorTable.get("ethertype"):add(0x88B5, pamir)

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
  held = ProtoField.uint64("pamir_link.held", "Held", base.HEX),
  length = ProtoField.uint16("pamir_link.length", "Length"),
  credit = ProtoField.uint8("pamir_link.credit", "Credit"),
  packet = ProtoField.bool("pamir_link.packet", "Packet", 8, nil, 1),
  probe = ProtoField.bool("pamir_link.probe", "Probe", 8, nil, 2),
  connect = ProtoField.bool("pamir_link.connect", "Connect", 8, nil, 4),
  release = ProtoField.bool("pamir_link.release", "Release", 8, nil, 8),
  released = ProtoField.bool("pamir_link.released", "Released", 8, nil, 16),
  keep = ProtoField.bool("pamir_link.keep", "Keep", 8, nil, 32),
}
link.fields = l

function link.dissector(buffer, pinfo, tree)
  if buffer:len() < LINK then return 0 end
  pinfo.cols.protocol = "PAMIR"
  local t = tree:add(link, buffer(0, LINK))
  local flags = buffer(31, 1):uint()
  t:add_le(l.checksum, buffer(0, 4))
  t:add_le(l.life, buffer(4, 4))
  t:add_le(l.connection, buffer(8, 4))
  t:add_le(l.sequence, buffer(12, 4))
  t:add_le(l.acknowledged, buffer(16, 4))
  if flags >= 4 then
    t:add_le(l.own, buffer(20, 4))
    t:add_le(l.attempt, buffer(24, 4))
  else
    t:add_le(l.held, buffer(20, 8))
  end
  t:add_le(l.length, buffer(28, 2))
  t:add(l.credit, buffer(30, 1))
  for _, flag in ipairs({ l.packet, l.probe, l.connect, l.release, l.released, l.keep }) do
    t:add(flag, buffer(31, 1))
  end
  local says = string.format("connection %u seq %u ack %u credit %u", buffer(8, 4):le_uint(),
    buffer(12, 4):le_uint(), buffer(16, 4):le_uint(), buffer(30, 1):uint())
  if flags % 2 == 0 then
    local kind = flags >= 32 and "Keep" or flags >= 16 and "Released" or flags >= 8 and "Release"
      or flags >= 4 and "Connect" or flags >= 2 and "Probe" or "Acknowledgement"
    pinfo.cols.info = kind .. ", " .. says
    return LINK
  end
  pamir.dissector(buffer(LINK):tvb(), pinfo, tree)
  pinfo.cols.info:append(" [" .. says .. "]")
  return buffer:len()
end

DissectorTable.get("ethertype"):add(0x88B6, link)
