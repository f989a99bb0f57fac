"""TransformerBlock."""

import jax

from .._layer import Layer
from .._variable import Seed, as_key
from ._activations import GELU
from ._attention import MultiHeadAttention
from ._dense import Dense
from ._dropout import Dropout
from ._layer_norm import LayerNorm


class TransformerBlock(Layer):
    """Attention and a feed-forward net, each on the normalised input and added to it.

    h = x + dropout(attention(norm_1(x))); y = h + dropout(ffn_2(gelu(ffn_1(norm_2(h)))))
    (Vaswani et al. 2017, section 3.1, with the norms in front as in Xiong et al. 2020, figure 1b).

    Args:
        d_model: size of the last axis.
        heads: number of attention heads; divides d_model.
        d_ff: size of the feed-forward net's hidden layer.
        key: int or random key for the weights and the dropout masks.
        dropout: share of the entries set to zero in each of the two branches, 0 for none.

    Raises:
        ValueError: as the layers inside raise.

    Example:
        >>> import jax
        >>> from da_layers import TransformerBlock
        >>> TransformerBlock(8, 2, 16, jax.random.key(0)).forward(jax.numpy.ones((2, 5, 8))).shape
        (2, 5, 8)
    """

    def __init__(self, d_model: int, heads: int, d_ff: int, key: Seed, dropout: float = 0.0) -> None:
        keys = jax.random.split(as_key(key), 5)
        self.ln1 = LayerNorm(d_model)
        self.attn = MultiHeadAttention(d_model, heads, keys[0])
        self.ln2 = LayerNorm(d_model)
        self.ffn1 = Dense(d_model, d_ff, keys[1])
        self.activation = GELU()
        self.ffn2 = Dense(d_ff, d_model, keys[2])
        self.dropout_attn = Dropout(dropout, keys[3]) if dropout else None
        self.dropout_ffn = Dropout(dropout, keys[4]) if dropout else None

    def _branches(self) -> tuple[list[Layer], list[Layer]]:
        attention = [self.ln1, self.attn, self.dropout_attn]
        feed_forward = [self.ln2, self.ffn1, self.activation, self.ffn2, self.dropout_ffn]
        return [part for part in attention if part], [part for part in feed_forward if part]

    def forward(self, x: jax.Array, training: bool = False) -> jax.Array:
        """Maps x (batch, time, d_model), float, to the same shape."""
        for branch in self._branches():
            h = x
            for layer in branch:
                h = layer.forward(h, training)
            x = x + h
        return x

    def backward(self, g: jax.Array) -> jax.Array:
        """Maps the gradient (batch, time, d_model) to the input's."""
        for branch in reversed(self._branches()):
            h = g
            for layer in reversed(branch):
                h = layer.backward(h)
            g = g + h
        return g
