-- Health of a subnet claim. Its status is not public: this reads what most kinds have, a condition or a phase. Clusters are synced after
-- their subnet is healthy, so a claim that tells nothing must not look as if it were in progress for ever.
local hs = {status = "Healthy", message = "no status to judge by"}
if obj.metadata.deletionTimestamp ~= nil then
  hs.status = "Progressing"
  hs.message = "being deleted"
  return hs
end
local status = obj.status
if status == nil then
  return hs
end

local failures = {Failed = true, Error = true, Conflict = true}
for _, kind in ipairs({"Ready", "Available", "Bound"}) do
  for _, c in ipairs(status.conditions or {}) do
    if c.type == kind then
      hs.message = c.message or ""
      if c.status == "True" then
        return hs
      end
      hs.status = "Progressing"
      if c.status == "False" and failures[c.reason or ""] then
        hs.status = "Degraded"
      end
      return hs
    end
  end
end

local phase = status.phase
if phase ~= nil and phase ~= "" then
  hs.message = phase
  if failures[phase] then
    hs.status = "Degraded"
  elseif phase == "Pending" or phase == "Creating" or phase == "Provisioning" then
    hs.status = "Progressing"
  end
end
return hs
