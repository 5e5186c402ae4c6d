-- Tell the workers, when this transaction is committed, that visits of these versions (up to 300 in a text) are gone.
select pg_notify('mainspring', 'stop ' || versions)
from unnest(%(versions)s::text[]) as i(versions)
