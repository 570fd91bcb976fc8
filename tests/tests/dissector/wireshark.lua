-- As much of Wireshark as xtask/pamir.lua uses: ranges check their bounds, what is added to the tree is noted by name.

base = { DEC = 1, HEX = 2 }

local ethertypes = {}
DissectorTable = {
  get = function(name)
    assert(name == "ethertype")
    return { add = function(_, number, proto) ethertypes[number] = proto end }
  end
}

function Proto(name) return { proto = name } end

ProtoField = setmetatable({}, {
  __index = function(_, kind)
    return function(abbreviation, _, _, _, mask)
      return { abbreviation = abbreviation, kind = kind, mask = mask }
    end
  end
})

local Range = {}
Range.__index = Range
local function range(bytes) return setmetatable({ bytes = bytes }, Range) end

function Range:__call(offset, length)
  offset = offset or 0
  length = length or #self.bytes - offset
  assert(offset >= 0 and length >= 0 and offset + length <= #self.bytes, "outside of the buffer")
  return range(self.bytes:sub(offset + 1, offset + length))
end

function Range:len() return #self.bytes end

function Range:tvb() return self end

function Range:uint() return (string.unpack(">I" .. #self.bytes, self.bytes)) end

function Range:le_uint() return (string.unpack("<I" .. #self.bytes, self.bytes)) end

local frame

Field = {
  new = function(name)
    assert(name == "eth.dst")
    return function() return { range = frame(0, 6) } end
  end
}

-- The bits of a mask, moved down to the first.
local function masked(value, mask)
  while mask and mask & 1 == 0 do mask, value = mask >> 1, value >> 1 end
  return mask and value & mask or value
end

local function leaf(noted)
  local function add(number)
    return function(_, field, part)
      if field.abbreviation and field.kind ~= "bytes" then
        noted[field.abbreviation] = masked(part[number](part), field.mask)
      end
      if field.kind == "bytes" then noted[field.abbreviation] = part:len() end
      return leaf(noted)
    end
  end
  return { add = add("uint"), add_le = add("le_uint") }
end

-- What the script makes of a frame: the columns, and the fields by their names.
function dissect(bytes)
  frame = range(bytes)
  local texts, noted = {}, {}
  local cols = setmetatable({}, {
    __newindex = function(_, column, text) texts[column] = text end,
    __index = function(_, column)
      return { append = function(_, text) texts[column] = texts[column] .. text end }
    end
  })
  local proto = assert(ethertypes[frame(12, 2):uint()], "nobody dissects this type")
  local taken = proto.dissector(frame(14), { cols = cols }, leaf(noted))
  return texts.protocol, texts.info, noted, taken
end
