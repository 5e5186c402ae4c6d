-- Keep definitions that are not there yet; they never change.
insert into mainspring.definition (fingerprint, format, tree, options)
select i.fingerprint, i.format, i.tree::jsonb, i.options::jsonb
from unnest(%(fingerprints)s::text[], %(formats)s::integer[], %(trees)s::text[], %(options)s::text[])
  as i(fingerprint, format, tree, options)
order by i.fingerprint
on conflict (fingerprint) do nothing
